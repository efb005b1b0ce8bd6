"""A look that finds the service unreachable found nothing yet; what holds a lease is not that patient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from airflow.exceptions import AirflowRescheduleException
from airflow.providers.common.compat.sdk import AirflowSensorTimeout, TaskDeferred, timezone

from airflow_provider_workflow.client.errors import TransportError, WorkflowError
from tests.unit.client.isolation import forget
from tests.unit.fake_clock import FakeClock, nothing
from tests.unit.sensors.tasks import POLL, Task
from tests.unit.workbench import Workbench

PASSING: dict[str, dict[str, Any]] = {
    "no answer": {"kind": "drop", "when": "after"},
    "an error of the service": {"kind": "status", "status": 503},
    "a long rate limit": {"kind": "status", "status": 429, "headers": {"Retry-After": "90"}},
}
UNREACHABLE = "is unreachable; retrying"


@pytest.fixture(params=["with runs", "with messages"])
def arguments(request: pytest.FixtureRequest) -> dict[str, Any]:
    """A sensor that starts runs, and one that returns messages."""
    return {} if request.param == "with runs" else {"trigger_dag_id": None, "acknowledge": "manual"}


@pytest.mark.parametrize("fault", PASSING)
def test_a_fault_that_may_pass_is_waited_out_in_the_triggerer(
    bench: Workbench, caplog: pytest.LogCaptureFixture, arguments: dict[str, Any], fault: str
) -> None:
    bench.put("a")
    bench.service.fault(operation="lease", times=None, **PASSING[fault])
    task = Task(bench, **arguments)
    deferral = task.execute()

    assert isinstance(deferral, TaskDeferred)
    assert deferral.trigger.hold_seconds == 0
    assert f"Inbox orders {UNREACHABLE}" in caplog.text
    assert len(bench.sent("lease")) == 1, "a lease is not repeated"


@pytest.mark.parametrize("fault", PASSING)
def test_a_fault_that_may_pass_is_poked_through_and_said_once(
    bench: Workbench,
    pauses: FakeClock,
    caplog: pytest.LogCaptureFixture,
    arguments: dict[str, Any],
    fault: str,
) -> None:
    caplog.set_level("INFO")
    bench.service.fault(operation="lease", times=None, **PASSING[fault])

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


@pytest.mark.parametrize("options", [{}, {"exponential_backoff": True, "max_wait": 1}])
def test_no_pause_of_the_mode_reschedule_is_too_short_for_airflow(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    monkeypatch.setenv("AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL", "8")
    task = Task(bench, deferrable=False, mode="reschedule", poll_interval=1, **options)
    before = timezone.utcnow()

    with pytest.raises(AirflowRescheduleException) as raised:
        task.execute()
    assert (raised.value.reschedule_date - before).total_seconds() >= 9


def test_a_fault_that_may_pass_is_looked_at_again_after_a_reschedule(bench: Workbench) -> None:
    bench.put("a")
    bench.service.fault("status", operation="lease", status=503)
    task = Task(bench, deferrable=False, mode="reschedule")

    with pytest.raises(AirflowRescheduleException):
        task.execute()
    assert task.execute()["started"]["ids"] == ["a"]


def test_an_inbox_that_cannot_be_looked_up_now_is_waited_for(bench: Workbench) -> None:
    bench.service.fault("drop", operation="list_inboxes", times=None)

    assert isinstance(Task(bench).execute(), TaskDeferred)


def test_the_timeout_holds_through_faults(bench: Workbench, fake_clock: FakeClock) -> None:
    bench.service.fault("status", operation="lease", status=503, times=None)
    task = Task(bench, timeout=100)
    deferral = task.execute()
    fake_clock.advance(101)

    with pytest.raises(AirflowSensorTimeout):
        task.resume(deferral, POLL)


@pytest.mark.parametrize("deferrable", [True, False])
def test_what_only_somebody_can_mend_fails_at_once(
    bench: Workbench, deferrable: bool, pauses: FakeClock
) -> None:
    bench.service.fault("status", operation="lease", status=403, times=None)

    with pytest.raises(WorkflowError):
        Task(bench, deferrable=deferrable).execute()
    assert pauses.slept == []


@pytest.mark.since(3, 3, "the task state store")
@pytest.mark.parametrize("deferrable", [True, False])
def test_an_acknowledgement_that_fails_is_no_look_and_fails_the_task(
    bench: Workbench, deferrable: bool, arguments: dict[str, Any], pauses: FakeClock
) -> None:
    if arguments:
        arguments = {"trigger_dag_id": None, "acknowledge": "auto"}
    bench.put("a")
    bench.service.fault("drop", operation="ack", times=None)

    with pytest.raises(TransportError):
        Task(bench, deferrable=deferrable, poll_interval=3.5, **arguments).execute()
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
