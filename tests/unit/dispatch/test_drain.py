"""Messages become DAG runs, are acknowledged after that, and leasing ends where it should."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any
from unittest.mock import Mock, patch

import pytest

from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.errors import TransportError, WorkflowError
from airflow_provider_workflow.client.sync_client import WorkflowClient
from airflow_provider_workflow.client.tokens import TokenCache, token_key
from airflow_provider_workflow.dispatch import dispatcher as dispatcher_module
from airflow_provider_workflow.dispatch.payloads import payload_of
from airflow_provider_workflow.dispatch.results import Counts, DrainEnd
from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.source import SourceError
from tests.unit.fake_clock import FakeClock
from tests.unit.fakes import api_error
from tests.unit.workbench import TaskTimeout, Workbench


def test_every_message_starts_one_run_and_is_acknowledged(bench: Workbench) -> None:
    bench.put("a", "b", "c", payload={"x": 1})
    dispatcher = bench.dispatcher()

    assert dispatcher.drain() is DrainEnd.EMPTY
    assert dispatcher.counts.result["started"] == {"count": 3, "ids": ["a", "b", "c"]}
    assert bench.states == {}
    assert dispatcher.counts.result["inbox_id"] == bench.inbox_id
    conf = bench.supervisor.runs["handle", bench.run_id("a")]
    assert conf["inbox_id"] == bench.inbox_id
    assert set(conf["message"]) == {"id", "created_at", "payload", "message_attributes"}
    assert conf["message"]["payload"] == {"x": 1}


def test_a_message_is_acknowledged_only_after_its_run_exists(bench: Workbench) -> None:
    ack_counts: list[int] = []
    bench.supervisor.on_start = lambda: ack_counts.append(bench.service.count("ack"))
    bench.put("a", "b")
    bench.dispatcher().drain(bench.lease())

    assert ack_counts == [0, 0]
    assert bench.service.count("ack") == 1


@pytest.mark.specification("3.2 duplicates")
def test_a_message_that_comes_again_finds_its_run(bench: Workbench) -> None:
    bench.put("a")
    bench.dispatcher().drain(bench.lease())
    bench.put("a")
    dispatcher = bench.dispatcher()
    dispatcher.drain()

    assert len(bench.supervisor.runs) == 1
    assert dispatcher.counts.result["existing"]["ids"] == ["a"]
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


def test_no_more_than_max_messages_are_leased_with_those_of_before(bench: Workbench) -> None:
    bench.put(*"abcdefg")
    counts = Counts()
    counts.count("started", "before")
    dispatcher = bench.dispatcher(max_messages=6, counts=counts, lease_limit=3)

    assert dispatcher.drain() is DrainEnd.LIMIT
    assert bench.lease_sizes == [1, 2, 2]
    assert len(bench.supervisor.runs) == 5
    assert bench.states == {"f": "available", "g": "available"}


def test_a_task_takes_at_most_10_000_messages(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    assert dispatcher_module.MAX_MESSAGES == 10_000
    monkeypatch.setattr(dispatcher_module, "MAX_MESSAGES", 3)
    bench.put(*"abcde")
    dispatcher = bench.dispatcher(lease_limit=2)

    assert dispatcher.drain() is DrainEnd.LIMIT
    assert bench.lease_sizes == [1, 2]


def test_one_task_leases_for_at_most_ten_minutes(bench: Workbench, fake_clock: FakeClock) -> None:
    bench.supervisor.on_start = lambda: fake_clock.advance(250)
    bench.put(*"abcde")
    dispatcher = bench.dispatcher(lease_limit=1)

    assert dispatcher.drain() is DrainEnd.LIMIT
    assert bench.supervisor.started == ["a", "b", "c"]


def test_no_run_is_started_in_the_last_30_s_of_a_lease(
    bench: Workbench, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench.supervisor.on_start = lambda: fake_clock.advance(140)
    bench.put(*"abcd")
    lease = bench.lease()
    runs_at_release: list[list[str]] = []
    release = bench.hook.release_messages

    def released(*arguments: Any) -> Any:
        runs_at_release.append(bench.supervisor.started)
        return release(*arguments)

    bench.hook.release_messages = released  # type: ignore[method-assign]
    bench.dispatcher().drain(lease)

    assert runs_at_release[0] == ["a", "b"]
    assert bench.bodies_of("release")[0]["message_ids"] == ["c", "d"]
    assert bench.supervisor.started == ["a", "b", "c", "d"]
    assert "2 of 4 leased messages were not started before the 30 s safety margin" in caplog.text


@pytest.mark.specification("2.2 initialization_failure")
def test_an_inbox_that_failed_to_initialize_says_what_to_do(bench: Workbench) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, "initialization_failure", "subscribe_failed")

    with pytest.raises(SourceError, match=r"'orders' .*subscribe_failed.* Delete it and create it"):
        bench.dispatcher().drain()


def test_a_dispatch_is_one_line_unmatched_messages_are_one_and_an_empty_inbox_is_none(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "airflow_provider_workflow")
    bench.put(*"abcde", payload={"wanted": True})
    bench.put(*"fg", payload={"wanted": False})
    dispatcher = bench.dispatcher(match="payload.wanted")
    dispatcher.drain()
    for _ in range(3):
        bench.dispatcher().drain()

    assert [record.getMessage() for record in caplog.records if "provider" in record.name] == [
        "Inbox orders: no route takes message f, which is left to its lease",
        "Inbox orders: dispatched to handle: 5 started, 0 existing, 0 rejected",
    ]


def test_a_payload_that_airflow_cannot_store_starts_its_run(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    payload = {"total": 1e20}
    bench.put("a", payload=payload)
    bench.dispatcher().drain()

    [conf] = bench.supervisor.runs.values()
    assert conf["message"]["payload"] is None
    assert payload_of(conf["message"]) == payload
    assert bench.states == {}
    [record] = [entry for entry in caplog.records if entry.levelno >= logging.WARNING]
    assert "Inbox orders: message a has a value that Airflow cannot store: payload " in record.getMessage()


def test_a_run_has_a_note_with_its_inbox_and_message_and_the_run_that_started_it(bench: Workbench) -> None:
    bench.put("a")
    dispatcher = bench.dispatcher()
    dispatcher.origin = "the run r of listener"
    dispatcher.drain()

    [request] = bench.supervisor.requests
    assert request.note == "Message `a` of the inbox `orders`, started by the run r of listener"


def test_capacity_is_asked_for_before_each_lease(bench: Workbench) -> None:
    run_counts = iter((4, 3, 4, 5))
    bench.ti.unfinished = lambda dag_id: next(run_counts)
    bench.put(*"abcdef")
    dispatcher = bench.dispatcher(max_unfinished_runs=5)

    assert dispatcher.drain() is DrainEnd.NO_CAPACITY
    assert bench.lease_sizes == [1, 2, 1]
    assert bench.service.count("release") == 0
    assert bench.states == {"e": "available", "f": "available"}


def test_without_room_in_the_fullest_dag_nothing_is_leased(bench: Workbench) -> None:
    bench.supervisor.dags = {"one", "two"}
    bench.ti.unfinished = {"one": 1, "two": 6}.__getitem__
    bench.put("a")
    dispatcher = bench.dispatcher({"one": "payload.x", "two": "payload"}, max_unfinished_runs=5)

    assert dispatcher.next_lease() == (0, 300)
    assert dispatcher.drain() is DrainEnd.NO_CAPACITY
    assert bench.service.count("lease") == 0


def test_runs_are_started_while_acknowledging_fails_and_all_is_acknowledged_at_the_end(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.service.fault("status", operation="ack", status=403, times=1)
    bench.put(*"abcdefg")

    assert bench.ready_dispatcher().drain() is DrainEnd.EMPTY
    assert bench.supervisor.started == [*"abcdefg"]
    assert bench.states == {}
    operations = [
        request.operation for request in bench.service.requests if request.operation in ("lease", "ack")
    ]
    assert operations == ["lease", "ack", *["lease"] * 4, *["ack"] * 4]
    [record] = [entry for entry in caplog.records if entry.levelno >= logging.WARNING]
    assert "the acknowledgement of 2 messages failed; the runs exist" in record.getMessage()


def test_after_a_failed_acknowledgement_messages_without_a_run_go_first(bench: Workbench) -> None:
    bench.service.fault("status", operation="ack", status=403, times=None)
    bench.put("first")
    bench.put("with a run", lease_count=3)
    bench.start_before("with a run")
    bench.put("redelivered", lease_count=1)
    bench.put("new")
    look_up = Mock(wraps=bench.ti.get_dr_count)
    dispatcher = bench.dispatcher(lease_limit=3)

    with patch.object(bench.ti, "get_dr_count", look_up), pytest.raises(WorkflowError):
        dispatcher.drain()
    assert bench.supervisor.started == ["with a run", "first", "redelivered", "new"]
    assert look_up.call_args.kwargs["run_ids"] == [bench.run_id("with a run")]


def test_acknowledgements_that_fail_for_hours_keep_no_message_from_its_run(
    bench: Workbench, clock: ManualClock, fake_clock: FakeClock
) -> None:
    fake_clock.moved_along.append(clock)
    bench.service.fault("status", operation="ack", status=503, times=None)
    message_ids: list[str] = []
    for number in range(40):
        message_ids += [f"m{number}a", f"m{number}b"]
        bench.put(*message_ids[-2:])
        with pytest.raises(WorkflowError):
            bench.dispatcher(attempt=2, lease_limit=10).drain()
        fake_clock.advance(300)

    assert sorted(bench.supervisor.started) == sorted(message_ids)


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
    once = bench.hook.for_shutdown()

    assert bench.hook.client.settings.timeout == 30
    assert once.client.settings.timeout == 5


def test_a_call_of_a_task_that_is_being_ended_waits_for_no_token_of_another_thread(bench: Workbench) -> None:
    settings, tokens = replace(bench.hook.settings, timeout=0.01), TokenCache()
    tokens.join(token_key(settings, settings.scope))
    with (
        WorkflowClient(settings, tokens=tokens, attempts=1, longest_wait=0.0) as client,
        pytest.raises(TransportError, match="still being renewed"),
    ):
        client.send(api.get_inbox(bench.inbox_id))
