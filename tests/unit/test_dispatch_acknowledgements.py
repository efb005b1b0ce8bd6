"""A run needs no acknowledgement: where acknowledging fails, starting runs goes on."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.client import WorkflowClient
from airflow_provider_workflow.client.errors import TransportError, WorkflowError
from airflow_provider_workflow.client.tokens import TokenCache, token_key
from airflow_provider_workflow.dispatch.results import Drained
from airflow_provider_workflow.emulator.clock import ManualClock
from tests.unit.fake_clock import FakeClock
from tests.unit.fakes import api_error
from tests.unit.workbench import TaskTimeout, Workbench


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
