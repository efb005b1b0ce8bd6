"""Messages become DAG runs, are acknowledged after that, and leasing ends where it should."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.client import WorkflowClient
from airflow_provider_workflow.client.errors import InboxPausedError, TransportError, WorkflowError
from airflow_provider_workflow.client.tokens import TokenCache, token_key
from airflow_provider_workflow.dispatch import dispatcher as dispatcher_module
from airflow_provider_workflow.dispatch.lease import InboxUnusableError
from airflow_provider_workflow.dispatch.payloads import payload_of
from airflow_provider_workflow.dispatch.results import Counts, Drained
from airflow_provider_workflow.emulator.clock import ManualClock
from tests.unit.fake_clock import FakeClock
from tests.unit.fakes import api_error
from tests.unit.workbench import INBOX, TaskTimeout, Workbench


def test_every_message_starts_one_run_and_is_acknowledged(bench: Workbench) -> None:
    bench.put("a", "b", "c", payload={"x": 1})
    dispatcher = bench.dispatcher()

    assert dispatcher.drain() is Drained.EMPTY
    assert dispatcher.counts.result["started"] == {"count": 3, "ids": ["a", "b", "c"]}
    assert bench.states == {}
    assert dispatcher.counts.result["inbox_id"] == bench.inbox_id
    conf = bench.supervisor.runs["handle", bench.run_id("a")]
    assert conf["inbox_id"] == bench.inbox_id
    assert set(conf["message"]) == {"id", "created_at", "payload", "message_attributes"}
    assert conf["message"]["payload"] == {"x": 1}


def test_a_message_is_acknowledged_only_after_its_run_exists(bench: Workbench) -> None:
    acknowledged: list[int] = []
    bench.supervisor.on_start = lambda: acknowledged.append(bench.service.count("ack"))
    bench.put("a", "b")
    bench.dispatcher().drain(bench.lease())

    assert acknowledged == [0, 0]
    assert bench.service.count("ack") == 1


@pytest.mark.specification("3.2 duplicates")
def test_a_message_that_comes_again_finds_its_run(bench: Workbench, clock: ManualClock) -> None:
    bench.put("a")
    bench.dispatcher().drain(bench.lease())
    bench.put("a")
    dispatcher = bench.dispatcher()
    dispatcher.drain()

    assert len(bench.supervisor.runs) == 1
    assert dispatcher.counts.result["existing"]["ids"] == ["a"]
    assert bench.states == {}


def test_a_message_twice_in_one_lease_starts_one_run(bench: Workbench) -> None:
    bench.put("a")
    bench.put("a")
    dispatcher = bench.dispatcher()
    dispatcher.drain(bench.lease())

    assert len(bench.supervisor.runs) == 1
    assert dispatcher.counts.result["started"]["ids"] == dispatcher.counts.result["existing"]["ids"] == ["a"]
    assert bench.states == {}


def test_a_lease_that_ran_out_before_its_acknowledgement_is_a_log_line(
    bench: Workbench, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a")
    lease = bench.lease()
    bench.supervisor.on_start = lambda: clock.advance(301)
    with caplog.at_level(logging.INFO):
        bench.dispatcher().drain(lease)

    assert "Inbox orders: a lease expired before its acknowledgement" in caplog.text
    assert bench.supervisor.started == ["a"]
    assert bench.states == {}, "it was redelivered, and its run was found"


def test_what_matches_nothing_is_left_to_its_lease(bench: Workbench) -> None:
    bench.put("a", payload={"wanted": True})
    bench.put("b", payload={"wanted": False})
    dispatcher = bench.dispatcher(match="payload.wanted")
    dispatcher.drain()

    assert bench.states == {"b": "leased"}
    assert bench.service.count("release") == 0
    assert dispatcher.counts.handled == 1


def test_messages_go_to_the_dag_that_is_chosen_for_them(bench: Workbench) -> None:
    bench.supervisor.dags = {"big", "small"}
    bench.put("a", payload={"n": 1})
    bench.put("b", payload={"n": 10})
    bench.dispatcher({"big": "payload.n > `5`", "small": "payload"}).drain()

    assert set(bench.supervisor.runs) == {("small", bench.run_id("a")), ("big", bench.run_id("b"))}


def test_no_more_than_max_messages_are_leased(bench: Workbench) -> None:
    bench.put(*"abcdefg")
    dispatcher = bench.dispatcher(max_messages=5, lease_limit=3)

    assert dispatcher.drain() is Drained.LIMIT
    assert bench.lease_sizes == [1, 3, 1]
    assert len(bench.supervisor.runs) == 5
    assert bench.states == {"f": "available", "g": "available"}


def test_what_was_done_before_counts_towards_max_messages(bench: Workbench) -> None:
    bench.put(*"abc")
    counts = Counts()
    counts.count("started", "before")
    dispatcher = bench.dispatcher(max_messages=2, counts=counts)

    assert dispatcher.drain() is Drained.LIMIT
    assert bench.lease_sizes == [1]


def test_one_task_takes_at_most_ten_thousand_messages(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert dispatcher_module.MOST_MESSAGES == 10_000
    monkeypatch.setattr(dispatcher_module, "MOST_MESSAGES", 3)
    bench.put(*"abcde")
    dispatcher = bench.dispatcher(lease_limit=2)

    assert dispatcher.drain() is Drained.LIMIT
    assert bench.lease_sizes == [1, 2]


def test_one_task_leases_for_at_most_ten_minutes(bench: Workbench, fake_clock: FakeClock) -> None:
    def pass_time() -> None:
        fake_clock.advance(250)

    bench.supervisor.on_start = pass_time
    bench.put(*"abcde")
    dispatcher = bench.dispatcher(lease_limit=1)

    assert dispatcher.drain() is Drained.LIMIT
    assert bench.supervisor.started == ["a", "b", "c"]


def test_no_run_is_started_in_the_last_30_s_of_a_lease(
    bench: Workbench, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    def pass_time() -> None:
        fake_clock.advance(140)

    bench.supervisor.on_start = pass_time
    bench.put(*"abcd")
    lease = bench.lease()
    started: list[list[str]] = []
    release = bench.hook.release_messages

    def released(*arguments: Any) -> Any:
        started.append(bench.supervisor.started)
        return release(*arguments)

    bench.hook.release_messages = released  # type: ignore[method-assign]
    bench.dispatcher().drain(lease)

    assert started[0] == ["a", "b"]
    assert bench.sent("release")[0]["message_ids"] == ["c", "d"]
    assert bench.supervisor.started == ["a", "b", "c", "d"]
    assert "2 of 4 leased messages were not started before the 30 s safety margin" in caplog.text


def test_a_paused_inbox_is_drained_first_and_then_raised(bench: Workbench) -> None:
    bench.put("a")
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "user")
    dispatcher = bench.dispatcher()

    with pytest.raises(InboxPausedError) as caught:
        dispatcher.drain()
    assert caught.value.paused_reason == "user"
    assert bench.supervisor.started == ["a"]


@pytest.mark.specification("2.2 initialization_failure")
def test_an_inbox_that_failed_to_initialize_says_what_to_do(bench: Workbench) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, "initialization_failure", "subscribe_failed")

    with pytest.raises(InboxUnusableError, match=r"'orders' .*subscribe_failed.* Delete it and create it"):
        bench.dispatcher().drain()


def test_an_inbox_that_initializes_is_empty(bench: Workbench) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, "initializing")

    assert bench.dispatcher().drain() is Drained.EMPTY


def test_a_dispatch_is_one_line_and_an_empty_inbox_none(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "airflow_provider_workflow")
    bench.put(*"abcde", payload={"wanted": True})
    bench.put("f", payload={"wanted": False})
    dispatcher = bench.dispatcher(match="payload.wanted")
    dispatcher.drain()
    for _ in range(3):
        bench.dispatcher().drain()

    assert [each.getMessage() for each in caplog.records if "provider" in each.name] == [
        "Inbox orders: dispatched to handle: 5 started, 0 existing, 0 rejected"
    ]


def test_a_message_without_an_id_is_an_error_line_and_the_others_start(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.service.put(INBOX, {"n": 1}, {"n": 2}, {"n": 3}, ids=["a", None, "c"])
    dispatcher = bench.ready_dispatcher(lease_limit=100)
    dispatcher.drain()

    assert bench.supervisor.started == ["a", "c"]
    [record] = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert "Inbox orders: the message at position 2 of lease" in record.getMessage()


def test_a_number_is_an_id_like_any_other(bench: Workbench) -> None:
    bench.service.put(INBOX, {"n": 1}, ids=[12345])
    bench.dispatcher().drain()

    assert list(bench.supervisor.runs) == [("handle", bench.run_id("12345"))]
    assert bench.states == {}


@pytest.mark.parametrize(
    ("payload", "reason"),
    [({"total": 1e20}, "a number of 2**64 or more"), ({"text": "a\0b"}, "a NUL character")],
)
def test_a_payload_that_airflow_cannot_store_starts_its_run(
    bench: Workbench, caplog: pytest.LogCaptureFixture, payload: Any, reason: str
) -> None:
    bench.put("a", payload=payload)
    bench.dispatcher().drain()

    [conf] = bench.supervisor.runs.values()
    assert conf["message"]["payload"] is None
    assert payload_of(conf["message"]) == payload
    assert bench.states == {}
    [record] = [each for each in caplog.records if each.levelno >= logging.WARNING]
    text = "Inbox orders: message a has a value that Airflow cannot store: payload is or contains"
    assert f"{text} {reason}. " in record.getMessage()


def test_a_run_has_a_note_with_its_inbox_and_message_and_the_run_that_started_it(bench: Workbench) -> None:
    bench.put("a")
    dispatcher = bench.dispatcher()
    dispatcher.origin = "the run r of listener"
    dispatcher.drain()

    [asked] = bench.supervisor.asked
    assert asked.note == "Message `a` of the inbox `orders`, started by the run r of listener"


def counts(*values: int) -> Callable[[str], int]:
    """Unfinished runs, as they are told one question after the other."""
    answers: Iterator[int] = iter(values)
    return lambda dag_id: next(answers)


def test_only_as_many_are_leased_as_there_is_room_for(bench: Workbench) -> None:
    bench.ti.unfinished = counts(2, 5)
    bench.put(*"abcdef")
    dispatcher = bench.ready_dispatcher(max_unfinished_runs=5, lease_limit=100)

    assert dispatcher.drain() is Drained.NO_CAPACITY
    assert bench.lease_sizes == [3]
    assert bench.service.count("release") == 0
    assert bench.states == {"d": "available", "e": "available", "f": "available"}


def test_capacity_is_asked_for_before_each_lease(bench: Workbench) -> None:
    bench.ti.unfinished = counts(4, 3, 4, 5)
    bench.put(*"abcdef")
    dispatcher = bench.dispatcher(max_unfinished_runs=5)

    assert dispatcher.drain() is Drained.NO_CAPACITY
    assert bench.lease_sizes == [1, 2, 1]


@pytest.mark.parametrize("unfinished", [5, 6])
def test_without_room_nothing_is_leased(bench: Workbench, unfinished: int) -> None:
    bench.ti.unfinished = lambda dag_id: unfinished
    bench.put("a")
    dispatcher = bench.dispatcher(max_unfinished_runs=5)

    assert dispatcher.next_lease() == (0, 300)
    assert dispatcher.drain() is Drained.NO_CAPACITY
    assert bench.service.count("lease") == 0


def test_the_fullest_of_several_dags_decides(bench: Workbench) -> None:
    bench.supervisor.dags = {"one", "two"}
    bench.ti.unfinished = {"one": 1, "two": 4}.__getitem__
    dispatcher = bench.dispatcher({"one": "payload.x", "two": "payload"}, max_unfinished_runs=5)

    assert dispatcher.next_lease() == (1, 300)


def test_runs_are_started_while_acknowledging_fails_and_all_is_acknowledged_at_the_end(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.service.fault("status", operation="ack", status=403, times=1)
    bench.put(*"abcdefg")

    assert bench.ready_dispatcher().drain() is Drained.EMPTY
    assert bench.supervisor.started == [*"abcdefg"]
    assert bench.states == {}
    operations = [each.operation for each in bench.service.requests if each.operation in ("lease", "ack")]
    assert operations == ["lease", "ack", *["lease"] * 4, *["ack"] * 4]
    [record] = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert "the acknowledgement of 2 messages failed; they have their runs" in record.getMessage()


@pytest.mark.parametrize("status", [403, 503])
def test_an_acknowledgement_that_fails_to_the_end_is_raised(
    bench: Workbench, fake_clock: FakeClock, status: int
) -> None:
    bench.service.fault("status", operation="ack", status=status, times=None)
    bench.put(*"abc")

    with pytest.raises(WorkflowError):
        bench.dispatcher(lease_limit=1).drain()
    assert bench.supervisor.started == ["a", "b", "c"]


def test_after_a_failed_acknowledgement_messages_without_a_run_go_first(bench: Workbench) -> None:
    bench.service.fault("status", operation="ack", status=403, times=None)
    bench.put("first")
    bench.put("with a run", lease_count=3)
    bench.start_before("with a run")
    bench.put("redelivered", lease_count=1)
    bench.put("new")
    dispatcher = bench.dispatcher(lease_limit=3)

    with pytest.raises(WorkflowError):
        dispatcher.drain()
    asked = [(each.conf or {})["message"]["id"] for each in bench.supervisor.asked]
    assert asked == ["first", "redelivered", "new", "with a run"]


def test_acknowledgements_that_fail_for_hours_keep_no_message_from_its_run(
    bench: Workbench, clock: ManualClock, fake_clock: FakeClock
) -> None:
    fake_clock.moved_along.append(clock)
    bench.service.fault("status", operation="ack", status=503, times=None)
    waiting: list[str] = []
    for number in range(40):
        waiting += [f"m{number}a", f"m{number}b"]
        bench.put(*waiting[-2:])
        with pytest.raises(WorkflowError):
            bench.dispatcher(attempt=2, lease_limit=10).drain()
        fake_clock.advance(300)

    assert sorted(bench.supervisor.started) == sorted(waiting)


def test_a_rejected_message_is_decided_about_although_acknowledging_fails(bench: Workbench) -> None:
    bench.allow_dead_letters(after=1)
    bench.supervisor.refuse("bad", api_error(422))
    bench.service.fault("status", operation="ack", status=403, times=1)
    bench.put("good", "bad")
    bench.dispatcher().drain()

    assert list(bench.dead_letters) == ["bad"]
    assert bench.states == {}


def test_what_ends_a_task_is_not_replaced_and_costs_one_attempt_each(bench: Workbench) -> None:
    bench.put(*"abc")
    for operation in ("ack", "release"):
        bench.service.fault("status", operation=operation, status=503, times=None)

    def out_of_time() -> None:
        if len(bench.supervisor.started) == 2:
            raise TaskTimeout

    bench.supervisor.on_start = out_of_time
    with pytest.raises(TaskTimeout):
        bench.dispatcher().drain(bench.lease())
    assert bench.service.count("ack") == 1
    assert bench.service.count("release") == 1


def test_a_call_of_a_task_that_is_being_ended_takes_5_s_at_most(bench: Workbench) -> None:
    once = bench.hook.hurried()

    assert bench.hook.client.settings.timeout == 30
    assert once.client.settings.timeout == 5


def test_a_call_of_a_task_that_is_being_ended_does_not_wait_for_a_token_that_another_thread_renews(
    bench: Workbench,
) -> None:
    settings, tokens = replace(bench.hook.settings, timeout=0.01), TokenCache()
    tokens.join(token_key(settings, settings.scope))
    with (
        WorkflowClient(settings, tokens=tokens, attempts=1, longest_wait=0.0) as client,
        pytest.raises(TransportError, match="still being renewed"),
    ):
        client.send(api.get_inbox(bench.inbox_id))
