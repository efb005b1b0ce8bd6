"""Batches: messages are acknowledged after the function returned for them, before their lease ends."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_workflow.client.errors import ServerError
from airflow_provider_workflow.dispatch.batch_outcomes import BatchError
from airflow_provider_workflow.dispatch.lease import InboxNotActiveError
from tests.unit.batching import Function, batches
from tests.unit.fake_clock import FakeClock
from tests.unit.workbench import INBOX, TaskTimeout, Workbench

# Leasing


def test_a_batch_is_acknowledged_after_the_function_returned_and_then_the_next_is_leased(
    bench: Workbench,
) -> None:
    states: list[dict[str, str]] = []
    function = Function(meanwhile=lambda ids: states.append(bench.states))
    bench.put("a", "b", "c")
    result = batches(bench, function, lease_limit=2).run()

    assert function.ids == [["a"], ["b", "c"]]
    assert states == [{"a": "leased", "b": "available", "c": "available"}, {"b": "leased", "c": "leased"}]
    assert bench.states == {}
    assert result == {
        "inbox_id": bench.inbox_id,
        "batches": 2,
        "processed": {"count": 3, "ids": ["a", "b", "c"]},
        "dead_lettered": {"count": 0, "ids": []},
    }


def test_leases_double_up_to_the_size_of_a_batch(bench: Workbench) -> None:
    bench.put(*(f"m{number:02}" for number in range(30)))
    function = Function()
    batches(bench, function, lease_limit=10).run()

    assert [len(ids) for ids in function.ids] == [1, 2, 4, 8, 10, 5]
    assert bench.states == {}


def test_an_empty_inbox_calls_nothing(bench: Workbench) -> None:
    function = Function()

    assert batches(bench, function).run()["batches"] == 0
    assert function.given == []


def test_not_more_messages_are_leased_than_allowed(bench: Workbench) -> None:
    bench.put("a", "b", "c", "d", "e")
    function = Function()
    batches(bench, function, max_messages=4).run()

    assert function.ids == [["a"], ["b", "c"], ["d"]]
    assert bench.states == {"e": "available"}


def test_the_function_is_given_nothing_of_the_lease(bench: Workbench) -> None:
    function = Function()
    bench.put("a", payload={"n": 1})
    batches(bench, function).run()
    [[message]] = function.given

    assert set(message) == {"id", "created_at", "payload", "message_attributes"}
    assert message["payload"] == {"n": 1}
    assert message["message_attributes"]["lease_count"] == 1


@pytest.mark.parametrize("payload", ["\0", 2**70, 1e300, "\ud800", None, [], {"__class__": 1}])
def test_a_payload_that_airflow_cannot_store_reaches_the_function_as_it_is(
    bench: Workbench, payload: Any
) -> None:
    function = Function()
    bench.service.put(INBOX, payload)
    batches(bench, function).run()

    assert function.given[0][0]["payload"] == payload


def test_a_payload_that_is_too_deep_to_decode_reaches_the_function_whole(bench: Workbench) -> None:
    function, levels, payload = Function(), 0, []  # type: ignore[var-annotated]
    for _ in range(900):
        payload = [payload]
    bench.service.put(INBOX, payload)
    batches(bench, function).run()
    [[message]] = function.given
    found = message["payload"]
    while found:
        [found], levels = found, levels + 1

    assert levels == 900
    assert "payload_json" not in message


def test_a_paused_inbox_without_messages_fails_the_task(bench: Workbench) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "abandoned")

    with pytest.raises(InboxNotActiveError, match="abandoned"):
        batches(bench, Function()).run()


def test_a_paused_inbox_is_no_error_after_its_messages_were_processed(bench: Workbench) -> None:
    bench.put("a")
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "abandoned")

    assert batches(bench, Function()).run()["processed"]["count"] == 1


# Time


def test_work_that_takes_longer_than_the_lease_is_an_error_before_the_next_batch(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    fake_clock.moved_along.append(bench.service.store.clock)  # type: ignore[arg-type]
    function = Function(meanwhile=lambda ids: fake_clock.advance(75))
    bench.put("a", "b", "c")

    with pytest.raises(BatchError) as raised:
        batches(bench, function, lease_limit=2, lease_seconds=60).run()
    assert function.ids == [["a"]]
    assert "the function took 75 s for 1 messages, and with lease_seconds=60 it may take 30 s" in str(
        raised.value
    )
    assert "decrease batch_size (now 2)" in str(raised.value)
    assert set(bench.states.values()) == {"available"}


def test_work_that_ends_in_the_last_seconds_of_the_lease_is_acknowledged_before_the_error(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    fake_clock.moved_along.append(bench.service.store.clock)  # type: ignore[arg-type]
    bench.put("a")

    with pytest.raises(BatchError):
        batches(bench, Function(meanwhile=lambda ids: fake_clock.advance(45)), lease_seconds=60).run()
    assert bench.states == {}


def test_the_function_is_not_called_when_dead_letters_took_until_the_end_of_the_lease(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    fake_clock.moved_along.append(bench.service.store.clock)  # type: ignore[arg-type]
    bench.allow_dead_letters()
    bench.supervisor.on_start = lambda: fake_clock.advance(45)
    function = Function()
    bench.put("a")
    bench.put("dead", lease_count=3)
    bench.put("b")
    batches(bench, function, lease_seconds=60).run()

    assert list(bench.dead_letters) == ["dead"]
    assert function.ids == [["a"], ["b"]]
    assert function.given[1][0]["message_attributes"]["lease_count"] == 2, "it was released in between"
    assert bench.states == {}


def test_no_dead_letter_is_started_after_the_lease_has_ended(bench: Workbench, fake_clock: FakeClock) -> None:
    fake_clock.moved_along.append(bench.service.store.clock)  # type: ignore[arg-type]
    bench.allow_dead_letters()
    function = Function({"bad"}, names=True, meanwhile=lambda ids: fake_clock.advance(75 * (ids == ["bad"])))
    bench.put("good")
    bench.put("bad", lease_count=2)

    with pytest.raises(BatchError):
        batches(bench, function, lease_seconds=60).run()
    assert bench.dead_letters == {}
    assert bench.states == {"bad": "available"}


def test_an_acknowledgement_that_fails_is_sent_again(bench: Workbench, fake_clock: FakeClock) -> None:
    bench.service.fault("status", operation="ack", status=503, times=7)
    bench.put("a")
    batches(bench, Function()).run()

    assert bench.states == {}


def test_an_acknowledgement_that_fails_until_the_lease_ends_fails_the_task_and_the_batch_is_redelivered(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    bench.service.fault("status", operation="ack", status=503, times=None)
    bench.put("a", "b")

    with pytest.raises(ServerError):
        batches(bench, Function(), lease_limit=1).run()
    assert fake_clock.elapsed < 300
    assert bench.states == {"a": "leased", "b": "available"}


# A task that is being ended


def test_a_task_that_times_out_in_the_function_releases_the_batch(bench: Workbench) -> None:
    def end(ids: list[str]) -> None:
        if len(ids) > 1:
            raise TaskTimeout

    bench.put("a", "b", "c")
    work = batches(bench, Function(meanwhile=end))

    with pytest.raises(TaskTimeout):
        work.run()
    assert bench.states == {"b": "available", "c": "available"}
    assert not work.working


def test_a_message_during_which_tasks_time_out_keeps_its_last_deliveries(bench: Workbench) -> None:
    def end(ids: list[str]) -> None:
        raise TaskTimeout

    bench.put("hangs", lease_count=2)
    bench.put("a")

    with pytest.raises(TaskTimeout):
        batches(bench, Function(meanwhile=end)).run()
    assert bench.states == {"hangs": "leased", "a": "available"}


def test_a_task_that_times_out_while_it_acknowledges_does_so_in_a_hurry(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    sound = type(bench.hook).acknowledge_messages

    def interrupted(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == 1:
            raise TaskTimeout
        return sound(*given)

    bench.put("a", "b")
    monkeypatch.setattr(type(bench.hook), "acknowledge_messages", interrupted)

    with pytest.raises(TaskTimeout):
        batches(bench, Function()).run()
    assert bench.states == {"b": "available"}


@pytest.mark.parametrize(("when", "calls"), [("before", 0), ("after", 1)])
def test_a_task_that_is_being_ended_while_it_leases_works_on_nothing_more(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, when: str, calls: int
) -> None:
    def leasing(*given: Any, **named: Any) -> Any:
        work.ended = TaskTimeout()
        return sound(*given, **named)

    sound = bench.hook.lease_messages
    function = Function()
    work = batches(bench, function, lease_limit=1)
    bench.put("a", "b")
    if when == "before":
        monkeypatch.setattr(bench.hook, "lease_messages", leasing)
    else:
        function.meanwhile = lambda ids: setattr(work, "ended", TaskTimeout())

    with pytest.raises(TaskTimeout):
        work.run()
    assert len(function.given) == calls
    assert set(bench.states.values()) == {"available"}
