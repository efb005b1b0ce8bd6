"""A run needs no acknowledgement: where acknowledging fails, starting runs goes on, within bounds."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_workflow import clock
from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.client import WorkflowClient
from airflow_provider_workflow.client.errors import TransportError, WorkflowError
from airflow_provider_workflow.client.tokens import TokenCache, token_key
from airflow_provider_workflow.dispatch.lease import HeldLease
from airflow_provider_workflow.dispatch.rejections import TargetError
from airflow_provider_workflow.dispatch.results import Drained
from airflow_provider_workflow.dispatch.session import InboxSession
from airflow_provider_workflow.emulator.clock import ManualClock
from tests.unit.fake_clock import FakeClock, nothing
from tests.unit.fakes import api_error
from tests.unit.workbench import INBOX, TaskTimeout, Workbench


@pytest.fixture
def pauses(fake_clock: FakeClock, clock: ManualClock) -> FakeClock:
    """The clock of the task; that of the service moves along."""
    fake_clock.moved_along.append(clock)
    return fake_clock


def test_runs_are_started_while_acknowledging_fails_and_all_is_acknowledged_after_it(
    bench: Workbench, pauses: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench.service.fault("status", operation="ack", status=500, times=None)
    bench.put("a")
    pauses.then(lambda: bench.put("b"), lambda: bench.put("c"), bench.service.emulator.faults.clear)

    assert bench.dispatcher().drain() is Drained.EMPTY
    assert bench.supervisor.started == ["a", "b", "c"]
    assert bench.states == {}
    [record] = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert "runs of other messages are started as before" in record.getMessage()


def test_at_most_two_leases_are_unacknowledged(bench: Workbench, pauses: FakeClock) -> None:
    bench.service.fault("status", operation="ack", status=500, times=None)
    bench.put(*"abcdef")
    pauses.then(*[nothing] * 3, bench.service.emulator.faults.clear)
    bench.ready_dispatcher().drain()

    leases = [each.operation for each in bench.service.requests if each.operation in ("lease", "ack")]
    first_success = len(leases) - leases[::-1].index("ack")
    assert bench.supervisor.started == [*"abcdef"]
    assert leases[:first_success].count("lease") <= 5
    assert bench.states == {}


def test_a_rejected_acknowledgement_counts_after_its_lease_has_expired(
    bench: Workbench, pauses: FakeClock
) -> None:
    bench.put("a")
    bench.service.fault("status", operation="ack", status=400, times=None)
    session = InboxSession(bench.hook, INBOX, alongside=False)
    session.acknowledge(replace(bench.lease(seconds=60), inbox_id=bench.inbox_id), ["a"])
    pauses.advance(61)

    assert session.unacknowledged == 0
    assert session.is_rejected


def test_pauses_double_up_to_a_minute(bench: Workbench, pauses: FakeClock) -> None:
    bench.service.fault("status", operation="ack", status=500, times=None)
    bench.put("a")

    with pytest.raises(WorkflowError):
        bench.dispatcher(lease_seconds=3600).drain()
    assert pauses.slept[:6] == [5, 10, 20, 40, 60, 60]
    assert sum(pauses.slept) < 700, "a task leases for ten minutes"


def test_an_acknowledgement_that_fails_to_the_end_is_raised(bench: Workbench, pauses: FakeClock) -> None:
    bench.service.fault("status", operation="ack", status=503, times=None)
    bench.put(*"ab")

    with pytest.raises(WorkflowError, match="acknowledge_messages"):
        bench.dispatcher().drain()
    assert bench.supervisor.started == ["a", "b"]


def test_an_expired_lease_is_not_acknowledged_again_and_its_messages_find_their_runs(
    bench: Workbench, pauses: FakeClock
) -> None:
    bench.put("a")
    bench.service.fault("status", operation="ack", status=503, times=None)
    pauses.then(*[nothing] * 4, bench.service.emulator.faults.clear)
    dispatcher = bench.dispatcher(lease_seconds=60)

    with pytest.raises(WorkflowError):
        dispatcher.drain()
    assert bench.supervisor.started == ["a"]
    assert bench.states == {}
    assert dispatcher.counts.result["started"]["count"] == 1


def test_a_rejected_acknowledgement_ends_leasing_at_once(bench: Workbench, fake_clock: FakeClock) -> None:
    bench.put(*"abc")
    bench.service.fault("status", operation="ack", status=403, times=None)

    with pytest.raises(WorkflowError):
        bench.ready_dispatcher(lease_limit=1).drain()
    assert fake_clock.slept == []
    assert len(bench.supervisor.started) <= 2


def test_more_than_100_messages_are_acknowledged_and_released_in_slices(bench: Workbench) -> None:
    ids = [f"00000000-0000-4000-8000-{number:012}" for number in range(250)]
    messages: list[Any] = [{"id": each, "payload": {}} for each in ids]
    lease = HeldLease(str(UUID(int=1)), clock.now() + 300, "", messages)
    bench.supervisor.refuse(ids[120], api_error(404))

    with pytest.raises(TargetError):
        bench.dispatcher().drain(lease)
    assert [len(each["message_ids"]) for each in bench.sent("ack")] == [100, 20]
    assert [len(each["message_ids"]) for each in bench.sent("release")] == [100, 30]


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
