"""The sensor goes on with what its trigger brings."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, AirflowSkipException

from airflow_provider_workflow.client.errors import WorkflowError
from airflow_provider_workflow.dispatch.lease import InboxNotActiveError, InboxUnusableError, TaskKilled
from airflow_provider_workflow.dispatch.routing import Routes
from airflow_provider_workflow.dispatch.run_errors import TargetError
from tests.unit.client.isolation import forget
from tests.unit.fake_clock import FakeClock
from tests.unit.fakes import api_error
from tests.unit.sensors.tasks import POLL, Task
from tests.unit.workbench import INBOX, Workbench


def test_a_lease_is_worked_on_and_then_what_else_is_there(bench: Workbench) -> None:
    task = Task(bench)
    deferral = task.execute()
    bench.put("a")
    event = task.leased()
    bench.put("b")

    assert task.resume(deferral, event)["started"]["ids"] == ["a", "b"]
    assert bench.states == {}


def test_a_lease_that_ran_out_is_leased_again_and_not_worked_on(
    bench: Workbench, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    task = Task(bench)
    deferral = task.execute()
    bench.put("a")
    event = task.leased()
    fake_clock.advance(271)
    result = task.resume(deferral, event)

    # By the service's clock the first lease has not ended: it is released, or nobody would get it.
    assert result["started"]["ids"] == ["a"]
    assert bench.service.count("release") == 1
    assert bench.states == {}
    assert "a lease ended before the task resumed; leasing again" in caplog.text
    assert "not started in time" not in caplog.text


def test_the_target_is_checked_again_and_all_is_released_where_it_is_gone(bench: Workbench) -> None:
    task = Task(bench)
    deferral = task.execute()
    bench.put("a", "b", "c", payload="x" * 4_000_000)
    event = task.leased()
    bench.ti.dag_fault = api_error(404)  # type: ignore[attr-defined]

    with pytest.raises(TargetError):
        task.resume(deferral, event)
    assert bench.states == dict.fromkeys("abc", "available")


def test_a_message_on_its_last_safe_delivery_becomes_a_dead_letter_where_the_target_is_gone(
    bench: Workbench,
) -> None:
    bench.allow_dead_letters()
    task = Task(bench, dead_letter_dag_id="dead")
    deferral = task.execute()
    bench.put("last", lease_count=3)
    bench.put("new", "newer")
    event = task.leased()
    bench.supervisor.dags.discard("handle")

    with pytest.raises(TargetError):
        task.resume(deferral, event)
    assert list(bench.dead_letters) == ["last"]
    assert bench.states == {"new": "available", "newer": "available"}


def test_a_wrong_expression_that_a_template_renders_to_starts_nothing(bench: Workbench) -> None:
    task = Task(bench, match="{{ params.match }}")
    bench.put("a", "b")
    event = task.leased()
    task.sensor.match = "&&"

    with pytest.raises(ValueError, match=r"^match"):
        task.sensor.resume(task.context, event, deadline=2e9)
    assert bench.supervisor.started == []
    assert bench.states == {"a": "leased", "b": "leased"}


@pytest.mark.parametrize(
    "arguments",
    [{}, pytest.param({"trigger_dag_id": None}, marks=pytest.mark.since(3, 3, "the task state store"))],
)
def test_what_was_too_much_to_hand_over_is_released_with_a_warning_and_worked_on(
    bench: Workbench, arguments: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    task = Task(bench, **arguments)
    deferral = task.execute()
    bench.put("a", "b", payload="x" * 600_000)
    value = task.resume(deferral, task.leased())

    assert "1 messages of a lease did not fit into the hand-off" in caplog.text
    assert bench.sent("release")[0]["message_ids"] == ["b"]
    if arguments:
        assert [message["id"] for message in value] == ["a"]
        assert bench.states == {"b": "available"}
    else:
        assert value["started"]["ids"] == ["a", "b"]


@pytest.mark.parametrize(
    "arguments",
    [{}, pytest.param({"trigger_dag_id": None}, marks=pytest.mark.since(3, 3, "the task state store"))],
)
def test_a_message_that_is_too_large_for_a_hand_off_is_leased_by_the_task(
    bench: Workbench, arguments: dict[str, Any]
) -> None:
    task = Task(bench, **arguments)
    deferral = task.execute()
    bench.put("big", payload="x" * 1_000_000)
    value = task.resume(deferral, task.leased())

    message_ids = [message["id"] for message in value] if arguments else value["started"]["ids"]
    assert message_ids == ["big"]
    assert bench.states == {}
    assert bench.service.summary(INBOX)["counters"]["leases"] == 2


def test_a_lease_of_large_messages_is_released_where_the_target_is_missing(bench: Workbench) -> None:
    task = Task(bench)
    deferral = task.execute()
    bench.put("a", "b", payload="x" * 1_000_000)
    event = task.leased()
    bench.supervisor.dags.discard("handle")

    with pytest.raises(TargetError):
        task.resume(deferral, event)
    assert bench.states == {"a": "available", "b": "available"}


@pytest.mark.parametrize(
    ("event", "kind", "text"),
    [
        ({"status": "paused", "reason": "abandoned"}, InboxNotActiveError, "abandoned"),
        ({"status": "initialization_failure", "reason": None}, InboxUnusableError, "Delete it"),
        ({"status": "error"}, AirflowException, "unknown event: 'error'"),
        ({}, AirflowException, "unknown event: None"),
    ],
)
def test_other_events_fail(bench: Workbench, event: dict[str, Any], kind: Any, text: str) -> None:
    task = Task(bench)
    deferral = task.execute()

    with pytest.raises(kind, match=text):
        task.resume(deferral, event)


def test_a_refusal_before_a_deferral_fails_the_task_at_its_end(bench: Workbench) -> None:
    bench.supervisor.refuse("bad", api_error(422))
    bench.ti.unfinished = lambda dag_id: len(bench.supervisor.runs)
    bench.put("a", "bad", "b", "c")
    task = Task(bench, max_unfinished_runs=2)
    deferral = task.execute()
    assert deferral.kwargs["so_far"]["result"]["rejected"]["ids"] == ["bad"]
    bench.ti.unfinished = lambda dag_id: 0

    with pytest.raises(AirflowFailException, match="bad: "):
        task.resume(deferral, POLL)
    assert bench.supervisor.started == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("flag", "kind"), [("soft_fail", AirflowSkipException), ("never_fail", AirflowSkipException)]
)
@pytest.mark.parametrize("event", [{"status": "paused"}, {"status": "?"}])
def test_what_fails_after_a_deferral_is_skipped_where_asked(
    bench: Workbench, flag: str, kind: Any, event: dict[str, Any]
) -> None:
    task = Task(bench, **{flag: True})
    deferral = task.execute()

    with pytest.raises(kind):
        task.resume(deferral, event)


def test_never_fail_skips_what_the_service_fails_with(bench: Workbench) -> None:
    deferral = Task(bench).execute()
    bench.service.fault("status", operation="lease", status=400, times=None)

    with pytest.raises(AirflowSkipException):
        Task(bench, never_fail=True).resume(deferral, POLL)
    with pytest.raises(WorkflowError):
        Task(bench, soft_fail=True).resume(deferral, POLL)


def test_a_timeout_after_a_deferral_is_skipped_with_soft_fail(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    task = Task(bench, timeout=50, soft_fail=True)
    deferral = task.execute()
    fake_clock.advance(51)

    with pytest.raises(AirflowSkipException):
        task.resume(deferral, POLL)


def test_a_task_that_is_being_ended_releases_the_lease_that_it_works_on(bench: Workbench) -> None:
    bench.put(*"abc")
    task = Task(bench)
    bench.supervisor.on_start = lambda: (
        task.sensor.on_kill() if bench.supervisor.started == ["a", "b"] else None
    )

    with pytest.raises(TaskKilled):
        task.execute()
    assert bench.states == {"b": "available", "c": "available"}


@pytest.mark.since(3, 3, "the task state store")
def test_a_task_that_is_being_ended_releases_the_messages_that_it_receives(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.put(*"abc")
    task = Task(bench, trigger_dag_id=None, match="payload")
    accepts = Routes.accepts

    def interrupted(*given: Any) -> bool:
        task.sensor.on_kill()
        return accepts(*given)

    monkeypatch.setattr(Routes, "accepts", interrupted)
    with pytest.raises(TaskKilled):
        task.execute()
    assert bench.states == dict.fromkeys("abc", "available")


@pytest.mark.since(3, 3, "the task state store")
def test_a_task_that_is_being_ended_keeps_what_it_has_begun_to_store(bench: Workbench) -> None:
    bench.put("a")
    task = Task(bench, trigger_dag_id=None)
    keep = task.store.set
    task.store.set = lambda *given: (task.sensor.on_kill(), keep(*given))  # type: ignore[method-assign,assignment]

    assert [message["id"] for message in task.execute()] == ["a"]
    assert bench.states == {}


def test_a_task_that_works_on_nothing_is_ended_without_more_ado(bench: Workbench) -> None:
    task = Task(bench)
    task.sensor.on_kill()
    task.execute()
    task.sensor.on_kill()


def test_a_lease_belongs_to_the_inbox_that_it_was_made_at(bench: Workbench) -> None:
    task = Task(bench)
    deferral = task.execute()
    bench.put("a")
    event = task.leased()
    forget()
    bench.service.fault("status", operation="list_inboxes", status=503, times=None)
    bench.service.fault("status", operation="get_inbox", status=503, times=None)

    assert task.resume(deferral, event)["started"]["ids"] == ["a"]
    assert bench.service.summary(bench.inbox_id)["counts"]["acked"] == 1
