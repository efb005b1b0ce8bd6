"""Messages become runs, are acknowledged after that, and leasing ends where it should."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from airflow_provider_workflow.client.errors import InboxPausedError
from airflow_provider_workflow.dispatch import dispatcher as dispatcher_module
from airflow_provider_workflow.dispatch.lease import InboxUnusableError
from airflow_provider_workflow.dispatch.results import Counts, Drained
from airflow_provider_workflow.emulator.clock import ManualClock
from tests.unit.fake_clock import FakeClock
from tests.unit.workbench import Workbench


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
