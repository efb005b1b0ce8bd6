"""How the sensor resumes, and which faults it survives."""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.exceptions import AirflowRescheduleException
from airflow.providers.common.compat.sdk import (
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    TaskDeferred,
    timezone,
)
from airflow.sdk.bases.operator import TriggerFailureReason

import airflow_provider_workflow
from airflow_provider_workflow.client.errors import TransportError
from airflow_provider_workflow.dispatch.holding import TaskKilled
from airflow_provider_workflow.dispatch.routing import Routes
from airflow_provider_workflow.dispatch.run_errors import TargetError
from tests.unit.client.isolation import forget
from tests.unit.fake_clock import FakeClock, nothing
from tests.unit.fakes import Fault, api_error
from tests.unit.sensors.tasks import MODES, POLL, Task
from tests.unit.workbench import Workbench

PACKAGE = Path(airflow_provider_workflow.__file__).parent


def test_a_lease_is_worked_on_and_then_what_else_is_there(bench: Workbench) -> None:
    task = Task(bench)
    deferral = task.execute()
    bench.put("a")
    event = task.leased()
    bench.put("b")

    assert task.resume(deferral, event)["started"]["ids"] == ["a", "b"]
    assert bench.states == {}


def test_a_sensor_resumes_with_the_event_alone(bench: Workbench, fake_clock: FakeClock) -> None:
    """``dag.test()`` passes nothing else."""
    task = Task(bench, timeout=100)
    deferral = task.execute()
    fake_clock.advance(30)
    again = task.run(lambda: task.sensor.resume_execution("resume", {"event": POLL}, task.context))
    assert again.kwargs["deadline"] == fake_clock.now() + 100

    bench.put("a")
    deferral.kwargs = None
    assert task.resume(deferral, task.leased())["started"]["ids"] == ["a"]


def test_each_keyword_of_a_method_that_a_deferral_names_has_a_default() -> None:
    methods = []
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        methods_of_deferrals = {
            keyword.value.value
            for keyword in ast.walk(tree)
            if isinstance(keyword, ast.keyword)
            and keyword.arg == "method_name"
            and isinstance(keyword.value, ast.Constant)
        }
        functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
        methods += [node for node in functions if node.name in methods_of_deferrals]

    assert [method.name for method in methods] == ["resume"]
    for method in methods:
        assert None not in method.args.kw_defaults, "dag.test() passes only the event"
        required = [argument.arg for argument in method.args.args[: -len(method.args.defaults)]]
        assert required == ["self", "context"]


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


def test_what_fails_after_a_deferral_is_skipped_where_asked(bench: Workbench, fake_clock: FakeClock) -> None:
    task = Task(bench, soft_fail=True)
    deferral = task.execute()
    bench.service.store.inboxes.force(bench.inbox_id, "initialization_failure")
    deferral = task.resume(deferral, POLL)
    fake_clock.advance(60)

    with pytest.raises(AirflowSkipException, match="failed to initialize"):
        task.resume(deferral, POLL)


@pytest.mark.parametrize("deferrable", [True, False])
def test_what_a_retry_may_pass_is_not_skipped_with_soft_fail(bench: Workbench, deferrable: bool) -> None:
    task = Task(bench, soft_fail=True, deferrable=deferrable)
    deferral = task.execute() if deferrable else None
    bench.put("a")
    bench.supervisor.fail(api_error(503))
    with pytest.raises(TargetError):
        task.resume(deferral, POLL) if deferral else task.execute()


@pytest.mark.parametrize("deferrable", [True, False])
def test_a_timeout_of_a_sound_inbox_is_airflows_own_error(
    bench: Workbench, pauses: FakeClock, deferrable: bool
) -> None:
    task = Task(bench, timeout=50, deferrable=deferrable)

    def wait() -> None:
        deferral = task.execute()
        pauses.advance(51)
        task.resume(deferral, POLL)

    with pytest.raises(AirflowSensorTimeout, match="50"):
        wait()


def test_a_timeout_of_the_trigger_is_the_timeout_of_the_sensor(bench: Workbench) -> None:
    """As in the mode poke: no retry waits again."""
    task = Task(bench)
    with pytest.raises(AirflowSensorTimeout):
        task.sensor.resume_execution(
            "__fail__", {"error": TriggerFailureReason.TRIGGER_TIMEOUT, "traceback": None}, task.context
        )


@pytest.mark.parametrize("reason", ["user", "abandoned"])
def test_a_pause_hides_no_error_of_the_target_that_is_probed(bench: Workbench, reason: str) -> None:
    def rejected(_: Any) -> Fault:
        bench.service.store.inboxes.force(bench.inbox_id, "paused", reason)
        return api_error(422)

    bench.put("a")
    bench.supervisor.faults.append(rejected)
    bench.ti.try_number = 2

    with pytest.raises(TargetError, match="has started no run"):
        Task(bench).execute()


@pytest.mark.parametrize(
    "arguments", [{}, {"trigger_dag_id": None, "acknowledge": "manual"}], ids=["with runs", "with messages"]
)
def test_an_expression_that_is_invalid_since_the_deferral_fails_the_task_and_releases_the_lease(
    bench: Workbench, arguments: dict[str, Any]
) -> None:
    bench.put("a")
    task = Task(bench, match="{{ var.value.match }}", **arguments)
    task.sensor.match = "payload.n =="

    with pytest.raises(ValueError, match="match is no valid JMESPath expression"):
        task.sensor.resume_execution("resume", {"event": task.leased()}, task.context)
    assert bench.states == {"a": "available"}


@pytest.mark.parametrize(
    "arguments", [{}, {"trigger_dag_id": None, "acknowledge": "manual"}], ids=["with runs", "with messages"]
)
def test_a_task_that_was_ended_before_it_resumed_releases_the_lease_of_its_trigger(
    bench: Workbench, arguments: dict[str, Any]
) -> None:
    bench.put("a")
    task = Task(bench, **arguments)
    task.sensor.on_kill()

    with pytest.raises(TaskKilled):
        task.sensor.resume_execution("resume", {"event": task.leased()}, task.context)
    assert bench.states == {"a": "available"}


def test_a_timeout_after_a_deferral_is_skipped_with_soft_fail(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    task = Task(bench, timeout=50, soft_fail=True)
    deferral = task.execute()
    fake_clock.advance(51)

    with pytest.raises(AirflowSkipException):
        task.resume(deferral, POLL)


@pytest.mark.since(3, 3, "the task state store")
def test_a_task_that_is_being_ended_releases_the_messages_that_it_receives(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.put(*"abc")
    task = Task(bench, trigger_dag_id=None, match="payload")
    accepts = Routes.accepts

    def interrupted(*args: Any) -> bool:
        task.sensor.on_kill()
        return accepts(*args)

    monkeypatch.setattr(Routes, "accepts", interrupted)
    with pytest.raises(TaskKilled):
        task.execute()
    assert bench.states == dict.fromkeys("abc", "available")


@pytest.mark.since(3, 3, "the task state store")
def test_a_task_that_is_being_ended_keeps_what_it_has_begun_to_store(bench: Workbench) -> None:
    bench.put("a")
    task = Task(bench, trigger_dag_id=None)
    keep = task.store.set
    task.store.set = lambda *args: (task.sensor.on_kill(), keep(*args))  # type: ignore[method-assign,assignment]

    assert [message["id"] for message in task.execute()] == ["a"]
    assert bench.states == {}


@pytest.mark.since(3, 3, "the task state store")
def test_a_lease_of_the_trigger_is_released_if_the_store_does_not_answer(bench: Workbench) -> None:
    task = Task(bench, trigger_dag_id=None)
    deferral = task.execute()
    bench.put("a")
    task.store.get = Mock(side_effect=ConnectionError)  # type: ignore[method-assign]

    with pytest.raises(ConnectionError):
        task.resume(deferral, task.leased())
    assert bench.states == {"a": "available"}


def test_a_sensor_that_is_ended_between_two_pokes_leases_nothing_more(bench: Workbench) -> None:
    task = Task(bench, deferrable=False)
    task.sensor.on_kill()

    with pytest.raises(TaskKilled):
        task.execute()
    assert bench.service.count("lease") == 0


UNREACHABLE = "is unreachable; retrying"


@pytest.fixture(params=["with runs", "with messages"])
def arguments(request: pytest.FixtureRequest) -> dict[str, Any]:
    """A sensor that starts runs, and one that returns messages."""
    return {} if request.param == "with runs" else {"trigger_dag_id": None, "acknowledge": "manual"}


def test_a_fault_that_may_pass_is_waited_out_in_the_triggerer(
    bench: Workbench, caplog: pytest.LogCaptureFixture, arguments: dict[str, Any]
) -> None:
    bench.put("a")
    bench.service.fault("drop", operation="lease", when="after", times=None)
    task = Task(bench, **arguments)
    deferral = task.execute()

    assert isinstance(deferral, TaskDeferred)
    assert deferral.trigger.hold_seconds == 0
    assert f"Inbox orders {UNREACHABLE}" in caplog.text
    assert len(bench.bodies_of("lease")) == 1, "a lease is not repeated"


def test_a_fault_that_may_pass_is_poked_through_and_said_once(
    bench: Workbench, pauses: FakeClock, caplog: pytest.LogCaptureFixture, arguments: dict[str, Any]
) -> None:
    caplog.set_level("INFO")
    bench.service.fault("status", operation="lease", status=503, times=None)

    def mend() -> None:
        bench.service.emulator.faults.clear()
        forget()
        bench.put("a")

    pauses.then(nothing, nothing, mend)
    assert Task(bench, deferrable=False, **arguments).execute()
    assert len(pauses.slept) == 3
    assert caplog.text.count(UNREACHABLE) == 1
    assert "Inbox orders is reachable again" in caplog.text


def test_silent_fail_pokes_through_what_fails_a_try_otherwise(bench: Workbench, pauses: FakeClock) -> None:
    bench.put("a")
    bench.service.fault("status", operation="lease", status=403, times=1)

    assert Task(bench, deferrable=False, silent_fail=True).execute()["started"]["ids"] == ["a"]
    assert len(pauses.slept) == 1


@pytest.mark.parametrize("returns", [True, False])
@pytest.mark.parametrize(("timeout", "waited_seconds"), [(86400, 1800), (600, 600)])
@pytest.mark.usefixtures("fake_clock")
def test_a_rescheduled_sensor_waits_as_long_as_the_service_requests_but_not_past_its_timeout(
    bench: Workbench, timeout: float, waited_seconds: float, returns: bool
) -> None:
    bench.service.fault("status", status=429, headers={"Retry-After": "1800"}, times=None)
    arguments = {"acknowledge": "manual", "trigger_dag_id": None} if returns else {}
    before = timezone.utcnow()

    with pytest.raises(AirflowRescheduleException) as error_info:
        Task(bench, timeout=timeout, **MODES["reschedule"], **arguments).execute()
    assert (error_info.value.reschedule_date - before).total_seconds() == pytest.approx(
        waited_seconds, abs=15
    )


@pytest.mark.parametrize("option", [{}, {"max_wait": 1}, {"timeout": 3}])
def test_a_pause_of_the_mode_reschedule_is_five_seconds_longer_than_a_heartbeat_of_airflow(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, option: dict[str, Any]
) -> None:
    monkeypatch.setenv("AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL", "8")
    arguments = {**MODES["reschedule"], "exponential_backoff": bool(option), **option}
    task = Task(bench, poll_interval=1, **arguments)
    before = timezone.utcnow()

    with pytest.raises(AirflowRescheduleException) as error_info:
        task.execute()
    assert (error_info.value.reschedule_date - before).total_seconds() >= 13


def test_an_inbox_that_cannot_be_looked_up_now_is_waited_for(bench: Workbench) -> None:
    bench.service.fault("drop", operation="list_inboxes", times=None)

    assert isinstance(Task(bench).execute(), TaskDeferred)


@pytest.mark.since(3, 3, "the task state store")
def test_an_acknowledgement_that_fails_is_no_look_and_fails_the_task(
    bench: Workbench, arguments: dict[str, Any], pauses: FakeClock
) -> None:
    if arguments:
        arguments = {"trigger_dag_id": None, "acknowledge": "auto"}
    bench.put("a")
    bench.service.fault("drop", operation="ack", times=None)

    with pytest.raises(TransportError):
        Task(bench, deferrable=False, poll_interval=3.5, **arguments).execute()
    assert 3.5 not in pauses.slept, "it is not poked again"


class TestBetweenTwoLeases:
    """The first lease was worked on; the second finds the service unreachable."""

    @pytest.fixture(autouse=True)
    def second_lease_fails(self, bench: Workbench, fake_clock: FakeClock) -> Iterator[None]:
        bench.put("a", "b", "c")
        bench.service.fault("status", operation="lease", status=503, after=1)
        yield
        assert bench.supervisor.started == ["a", "b", "c"]
        assert bench.states == {}

    def test_a_deferrable_sensor_looks_again_and_counts_on(self, bench: Workbench) -> None:
        task = Task(bench, lease_limit=1)
        deferral = task.execute()

        assert bench.supervisor.started == ["a"]
        assert deferral.trigger.hold_seconds == 5, "it leases nothing: the sensor itself looks again"
        assert task.resume(deferral, POLL)["started"] == {"count": 3, "ids": ["a", "b", "c"]}

    def test_poke_mode_looks_again_and_counts_on(self, bench: Workbench, pauses: FakeClock) -> None:
        result = Task(bench, deferrable=False, lease_limit=1).execute()

        assert result["started"]["count"] == 3
        assert len(pauses.slept) == 1

    def test_reschedule_mode_ends_with_what_it_has_done(self, bench: Workbench) -> None:
        task = Task(bench, deferrable=False, mode="reschedule", lease_limit=1)

        assert task.execute()["started"]["ids"] == ["a"]
        assert task.execute()["started"]["ids"] == ["b", "c"]
