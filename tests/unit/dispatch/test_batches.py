"""Batches: leases, calls of the function, and messages that failed."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from airflow_provider_workflow.client import tolerant_json
from airflow_provider_workflow.client.errors import ServerError
from airflow_provider_workflow.dispatch.batch_outcomes import BatchError
from airflow_provider_workflow.source import SourceError
from tests.unit.dispatch.batching import NAMED, Function, batches, counts_of, retry
from tests.unit.fake_clock import FakeClock
from tests.unit.workbench import INBOX, TaskTimeout, Workbench


def test_a_batch_is_acknowledged_after_its_call_and_before_the_next_lease(bench: Workbench) -> None:
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


def test_not_more_messages_are_leased_than_allowed(bench: Workbench) -> None:
    bench.put("a", "b", "c", "d", "e")
    function = Function()
    batches(bench, function, max_messages=4).run()

    assert function.ids == [["a"], ["b", "c"], ["d"]]
    assert bench.states == {"e": "available"}


def test_a_payload_that_airflow_cannot_store_reaches_the_function_as_it_is(bench: Workbench) -> None:
    payload = ["\0", 2**70, 1e300, "\ud800", {"__class__": 1}, tolerant_json.decode("[" * 140 + "]" * 140)]
    function = Function()
    bench.service.put(INBOX, payload)
    batches(bench, function).run()
    [[message]] = function.calls

    assert tolerant_json.dumped(message["payload"]) == tolerant_json.dumped(payload)
    assert set(message) == {"id", "created_at", "payload", "message_attributes"}
    assert message["message_attributes"]["lease_count"] == 1


def test_a_paused_inbox_fails_the_task_unless_by_a_user_or_it_had_messages(bench: Workbench) -> None:
    bench.put("a")
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "abandoned")
    assert batches(bench, Function()).run()["processed"]["count"] == 1

    with pytest.raises(SourceError, match="abandoned"):
        batches(bench, Function()).run()
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "user")
    assert batches(bench, Function()).run()["batches"] == 0


@pytest.mark.parametrize(("seconds", "message_ids"), [(75, "abc"), (45, "bc")])
def test_a_call_that_takes_longer_than_a_lease_is_an_error_and_acknowledged_if_possible(
    bench: Workbench, fake_clock: FakeClock, seconds: int, message_ids: str
) -> None:
    fake_clock.moved_along.append(bench.service.store.clock)  # type: ignore[arg-type]
    function = Function(meanwhile=lambda ids: fake_clock.advance(seconds))
    bench.put("a", "b", "c")

    with pytest.raises(BatchError, match=f"took {seconds} s for 1 message, and all .* 30 s.*_size .now 2"):
        batches(bench, function, lease_limit=2, lease_seconds=60).run()
    assert function.ids == [["a"]]
    assert bench.states == dict.fromkeys(message_ids, "available")


def test_after_the_lease_the_function_is_not_called(bench: Workbench, fake_clock: FakeClock) -> None:
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
    assert function.calls[1][0]["message_attributes"]["lease_count"] == 2, "it was released in between"
    assert bench.states == {}


def test_an_acknowledgement_that_fails_is_sent_again(bench: Workbench, fake_clock: FakeClock) -> None:
    bench.service.fault("status", operation="ack", status=503, times=7)
    bench.put("a")
    batches(bench, Function()).run()

    assert bench.states == {}


def test_acknowledgements_that_all_fail_fail_the_task(bench: Workbench, fake_clock: FakeClock) -> None:
    bench.service.fault("status", operation="ack", status=503, times=None)
    bench.put("a", "b")

    with pytest.raises(ServerError):
        batches(bench, Function(), lease_limit=1).run()
    assert fake_clock.elapsed < 300
    assert bench.states == {"a": "leased", "b": "available"}


def test_a_task_that_times_out_in_the_function_releases_the_batch(bench: Workbench) -> None:
    def end(ids: list[str]) -> None:
        if len(ids) > 1:
            raise TaskTimeout

    bench.put("a", "b", "c")
    work = batches(bench, Function(meanwhile=end))

    with pytest.raises(TaskTimeout):
        work.run()
    assert bench.states == {"b": "available", "c": "available"}
    assert not work.task.holds_lease


def test_a_message_during_which_tasks_time_out_keeps_its_last_deliveries(bench: Workbench) -> None:
    bench.put("hangs", lease_count=2)
    bench.put("a")

    with pytest.raises(TaskTimeout):
        batches(bench, Function(meanwhile=Mock(side_effect=TaskTimeout))).run()
    assert bench.states == {"hangs": "leased", "a": "available"}


def test_a_task_that_times_out_while_it_acknowledges_does_so_in_a_hurry(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    sound = type(bench.hook).acknowledge_messages

    def interrupted(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 1:
            raise TaskTimeout
        return sound(*arguments)

    bench.put("a", "b")
    monkeypatch.setattr(type(bench.hook), "acknowledge_messages", interrupted)

    with pytest.raises(TaskTimeout):
        batches(bench, Function()).run()
    assert bench.states == {"b": "available"}


@pytest.mark.parametrize(("when", "calls"), [("before", 0), ("after", 1)])
def test_a_task_that_is_being_ended_while_it_leases_works_on_nothing_more(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, when: str, calls: int
) -> None:
    def leasing(*arguments: Any, **keywords: Any) -> Any:
        work.task.killed_by = TaskTimeout()
        return sound(*arguments, **keywords)

    sound = bench.hook.lease_messages
    function = Function()
    work = batches(bench, function, lease_limit=1)
    bench.put("a", "b")
    if when == "before":
        monkeypatch.setattr(bench.hook, "lease_messages", leasing)
    else:
        function.meanwhile = lambda ids: setattr(work.task, "killed_by", TaskTimeout())

    with pytest.raises(TaskTimeout):
        work.run()
    assert len(function.calls) == calls
    assert set(bench.states.values()) == {"available"}


def test_a_batch_for_which_the_function_raises_is_released_and_fails_the_task(bench: Workbench) -> None:
    bench.put("a", "b", "c", "d")

    with pytest.raises(ValueError, match="cannot read"):
        batches(bench, Function({"c"}), lease_limit=2).run()
    assert bench.states == {"b": "available", "c": "available", "d": "available"}
    assert counts_of(bench) == {"b": 1, "c": 1, "d": 0}


def test_a_message_that_fails_alone_keeps_its_lease_and_the_work_goes_on(bench: Workbench) -> None:
    function = Function({"a"})
    bench.put("a", "b", "c")

    with pytest.raises(ValueError, match="cannot read"):
        batches(bench, function).run()
    assert function.ids == [["a"], ["b"], ["c"]]
    assert bench.states == {"a": "leased"}


@pytest.mark.parametrize("processed", [2, 1])
def test_a_message_that_failed_and_is_processed_or_a_dead_letter_then_does_not_fail_the_task(
    bench: Workbench, processed: int
) -> None:
    def meanwhile(ids: list[str]) -> None:
        if ids == ["b"]:
            of_a, _ = bench.service.store.messages.summary(bench.inbox_id)["leases"]
            bench.service.store.messages.expire(bench.inbox_id, of_a["lease_id"])
            if processed == 2:
                function.bad.clear()

    bench.allow_dead_letters(after=2)
    function = Function({"a"}, meanwhile=meanwhile)
    bench.put("a", "b")
    result = batches(bench, function).run()

    assert function.ids == [["a"], ["b"], ["a"]]
    assert result["processed"]["count"] == processed
    assert bench.states == {}


@pytest.mark.parametrize(("attempt", "calls"), [(1, 2), (3, 8), (9, 64)])
def test_a_function_that_is_broken_is_called_for_few_messages_of_a_try(
    bench: Workbench, attempt: int, calls: int
) -> None:
    bench.ti.try_number = attempt
    ids = [f"m{number:02}" for number in range(70)]
    bench.put(*ids)
    function = Function(set(ids))

    with pytest.raises(ValueError, match="cannot read"):
        batches(bench, function).run()
    assert len(function.calls) == calls
    assert max(counts_of(bench).values()) == 1


@pytest.mark.parametrize(("attempt", "seconds"), [(1, 300), (2, 3600)])
def test_leases_grow_to_the_size_of_a_batch_and_after_a_failed_try_to_half_and_the_first_is_an_hour(
    bench: Workbench, attempt: int, seconds: int
) -> None:
    bench.ti.try_number = attempt
    bench.put(*"abcdefghijklm")
    batches(bench, Function(), lease_limit=6 * attempt).run()

    leases = [(body["lease_limit"], body["lease_seconds"]) for body in bench.bodies_of("lease")]
    assert leases == [(1, seconds), (2, 300), (4, 300), (6, 300), (6, 300)]


def test_twenty_failures_in_a_row_stop_a_function_that_processed_messages_before(bench: Workbench) -> None:
    bad = [f"bad{number:02}" for number in range(30)]
    bench.put("good")
    bench.put(*bad, lease_count=1)

    with pytest.raises(ValueError, match="cannot read"):
        batches(bench, function := Function(set(bad))).run()
    assert len(function.calls) == 21


def test_leases_begin_with_one_message_after_one_that_was_released_unexplained(bench: Workbench) -> None:
    """The message that was called failed, which explains its earlier delivery; the other one is not."""
    bench.put("new")
    bench.put("bad", "old", lease_count=1)
    with pytest.raises(BatchError):
        batches(bench, function := Function({"bad", "old"}, names=True)).run()

    assert function.ids[0] == ["new"]
    assert bench.lease_sizes[:3] == [1, 2, 1]


def test_of_a_larger_lease_one_message_that_was_delivered_before_is_called(bench: Workbench) -> None:
    states: list[dict[str, str]] = []
    function = Function(meanwhile=lambda ids: states.append(bench.states))
    bench.put("new1", "new2", "new3")
    bench.put("old1", "old2", "old3", lease_count=1)
    bench.put("new4", "new5", "new6")
    batches(bench, function).run()

    assert function.ids == [
        *(["new1"], ["new2", "new3"], ["old3"], ["new4"], ["old1"]),
        *(["old2"], ["new5"], ["new6"]),
    ]
    assert bench.lease_sizes == [1, 2, 4, 1, 1, 1, 2, 2]
    # While the first of them is called the others are not held.
    leased_ids = {message_id for message_id, status in states[2].items() if status == "leased"}
    assert leased_ids == {"old3", "new4"}
    assert bench.states == {}


def test_messages_that_may_not_wait_are_called_alone_and_are_no_dead_letters_if_time_runs_out(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    fake_clock.moved_along.append(bench.service.store.clock)  # type: ignore[arg-type]
    function = Function(meanwhile=lambda ids: fake_clock.advance(180 if ids == ["old2"] else 100))
    bench.allow_dead_letters()
    bench.put("new1")
    bench.put("old1", "old2", "old3", lease_count=2)
    bench.put("new2")
    batches(bench, function).run()

    assert function.ids == [["new1"], ["old1"], ["old2"], ["old3"], ["new2"]]
    assert bench.states == bench.dead_letters == {}


@pytest.mark.parametrize(("delivered", "seconds", "old"), [(2, 140, "12"), (3, 140, "21"), (2, 160, "1")])
def test_last_calls_are_made_if_the_lease_may_outlast_them_and_in_turns_of_both_orders(
    bench: Workbench, fake_clock: FakeClock, delivered: int, seconds: int, old: str
) -> None:
    fake_clock.moved_along.append(bench.service.store.clock)  # type: ignore[arg-type]
    function = Function(meanwhile=lambda ids: fake_clock.advance(seconds))
    bench.put("new")
    bench.put("old1", "old2", lease_count=delivered)
    batches(bench, function, max_messages=3).run()
    assert function.ids == [["new"], *([f"old{number}"] for number in old)]


def test_messages_released_for_lack_of_time_share_a_call(bench: Workbench, fake_clock: FakeClock) -> None:
    fake_clock.moved_along.append(bench.service.store.clock)  # type: ignore[arg-type]
    function = Function(meanwhile=lambda ids: fake_clock.advance(140))
    bench.put("new1")
    bench.put("old", lease_count=1)
    bench.put("new2", "new3", "new4")
    batches(bench, function).run()

    assert function.ids == [["new1"], ["old"], ["new2"], ["new3", "new4"]]


@pytest.mark.parametrize("status", ["active", "paused"])
def test_a_retry_that_processes_some_messages_fails_while_others_are_leased(
    bench: Workbench, status: str
) -> None:
    bench.put("a", "b")
    bench.lease(1)
    retry(bench)
    bench.service.store.inboxes.force(bench.inbox_id, status, "user")

    with pytest.raises(BatchError, match="no message is available, with 1 message still leased"):
        batches(bench, Function()).run()
    assert bench.states == {"a": "leased"}


def test_a_retry_says_first_that_its_own_earlier_try_failed_for_what_is_leased(bench: Workbench) -> None:
    function = Function({"b", "c"}, names=True)
    bench.put("a", "b", "c")
    with pytest.raises(BatchError, match="2 messages failed without an acknowledgement"):
        batches(bench, function).run()
    retry(bench)

    with pytest.raises(
        BatchError, match=r"2 messages still leased: an earlier try of this task failed \(its"
    ):
        batches(bench, function).run()


def test_a_retry_in_which_a_message_fails_raises_what_the_function_raised(bench: Workbench) -> None:
    bench.put("bad")
    retry(bench)

    with pytest.raises(ValueError, match="cannot read"):
        batches(bench, Function({"bad"})).run()
    assert bench.states == {"bad": "leased"}


def test_a_retry_whose_inbox_has_been_processed_succeeds(bench: Workbench) -> None:
    bench.put("a")
    bench.hook.acknowledge_messages(bench.inbox_id, bench.lease().lease_id)
    bench.put("bad", lease_count=5)
    retry(bench)
    bench.hook.release_messages(bench.inbox_id, bench.lease().lease_id)

    assert bench.states == {"bad": "quarantined"}
    assert batches(bench, Function()).run()["batches"] == 0


def test_a_first_try_that_finds_only_leased_messages_succeeds(bench: Workbench) -> None:
    bench.put("a")
    bench.lease()

    assert batches(bench, Function()).run()["batches"] == 0


def test_of_a_batch_with_failed_messages_the_others_are_acknowledged(bench: Workbench) -> None:
    function = Function({"b", "d"}, names=True)
    bench.put("a", "b", "c", "d", "e")

    with pytest.raises(BatchError) as error_info:
        batches(bench, function).run()
    assert function.ids == [["a"], ["b", "c"], ["d", "e"]]
    assert bench.states == {"b": "leased", "d": "leased"}
    assert f"2 messages failed without an acknowledgement: b: {NAMED}; d: {NAMED}" in str(error_info.value)


def test_more_failed_messages_than_fit_into_an_error_are_counted(bench: Workbench) -> None:
    bad = {f"bad{number:02}" for number in range(12)}
    bench.put("good", *sorted(bad))

    with pytest.raises(BatchError, match=r"12 messages failed .* bad09: named in MessagesFailed; \.\.\."):
        batches(bench, Function(bad, names=True)).run()


def test_a_retry_reads_a_list_whose_messages_have_no_status(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(bench.hook), "list_messages", lambda hook, inbox: [{"id": "a"}])
    retry(bench)
    assert batches(bench, Function()).run()["processed"]["count"] == 0
