"""The sensor looks on the worker first, and waits in the triggerer only where nothing is there."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.providers.common.compat.sdk import (
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
)

from airflow_provider_workflow.client.errors import WorkflowError
from airflow_provider_workflow.dispatch.lease import InboxNotActiveError, InboxUnusableError
from airflow_provider_workflow.dispatch.run_errors import TargetError
from tests.unit.fake_clock import FakeClock
from tests.unit.fakes import api_error
from tests.unit.sensors.tasks import POLL, Task
from tests.unit.workbench import Workbench

WEEK = 7 * 86400.0


def test_messages_that_are_there_are_dispatched_without_a_deferral(bench: Workbench) -> None:
    bench.put("a", "b")

    assert Task(bench).execute()["started"] == {"count": 2, "ids": ["a", "b"]}
    assert bench.states == {}


def test_an_empty_inbox_is_waited_for_in_the_triggerer(bench: Workbench, fake_clock: FakeClock) -> None:
    task = Task(bench, lease_limit=50, lease_seconds=120, poll_interval=3, wake_on_events=False)
    deferral = task.execute()

    path, kwargs = deferral.trigger.serialize()
    assert path == "airflow_provider_workflow.triggers.inbox.WorkflowInboxTrigger"
    assert kwargs == {
        "inbox": "orders",
        "workflow_conn_id": "workflow_default",
        "lease_limit": 1,
        "lease_seconds": 120,
        "poll_interval": 3,
        "max_poll_interval": 60,
        "wake_on_events": False,
        "on_paused": "fail",
        "settle_seconds": 6.0,
        "hold_seconds": 0.0,
    }
    assert deferral.method_name == "resume"
    assert deferral.kwargs["deadline"] == fake_clock.now() + WEEK
    assert deferral.timeout.total_seconds() == WEEK


def test_a_trigger_stays_quiet_until_airflow_has_noticed_the_deferral(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL", "9")

    assert Task(bench).execute().trigger.settle_seconds == 10


def test_the_timeout_counts_from_the_first_start_of_the_look(bench: Workbench, fake_clock: FakeClock) -> None:
    task = Task(bench, timeout=100, match="payload.wanted")
    began = fake_clock.now()

    def slow(dag_id: str) -> None:
        fake_clock.advance(30)

    bench.ti.get_dag = slow  # type: ignore[attr-defined]
    deferral = task.execute()

    assert deferral.kwargs["deadline"] == began + 100
    assert deferral.timeout.total_seconds() < 100 - 29


def test_the_timeout_goes_on_counting_across_deferrals(bench: Workbench, fake_clock: FakeClock) -> None:
    task = Task(bench, timeout=100)
    first = task.execute()
    fake_clock.advance(70)
    second = task.resume(first, POLL)

    assert second.kwargs["deadline"] == first.kwargs["deadline"]
    assert second.timeout.total_seconds() == 30
    fake_clock.advance(30)
    with pytest.raises(AirflowSensorTimeout, match="within 100 s"):
        task.resume(second, POLL)


def test_nothing_is_leased_for_a_missing_dag(bench: Workbench) -> None:
    bench.put("a")

    with pytest.raises(TargetError):
        Task(bench, trigger_dag_id="missing").execute()
    assert bench.service.count("lease") == 0


def test_a_refused_message_fails_the_task_at_its_end(bench: Workbench) -> None:
    bench.supervisor.refuse("bad", api_error(422))
    bench.put("b", "bad")

    with pytest.raises(AirflowFailException, match="bad: "):
        Task(bench).execute()
    assert bench.supervisor.started == ["b"]


def test_a_refused_message_is_only_logged_where_asked(bench: Workbench) -> None:
    bench.supervisor.refuse("bad", api_error(422))
    bench.put("a", "bad")

    assert Task(bench, on_rejected="log").execute()["rejected"]["ids"] == ["bad"]


def test_a_paused_and_drained_inbox_fails_or_waits_and_names_the_reason(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "abandoned")

    with pytest.raises(InboxNotActiveError, match="abandoned"):
        Task(bench).execute()
    assert Task(bench, on_paused="wait").execute().trigger.on_paused == "wait"
    assert "Inbox orders is paused: abandoned" in caplog.text


def test_a_paused_inbox_that_still_held_messages_is_a_success(bench: Workbench) -> None:
    bench.put("a")
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "user")

    assert Task(bench).execute()["started"]["ids"] == ["a"]


def test_an_inbox_that_failed_to_initialize_fails_at_once(bench: Workbench) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, "initialization_failure", "subscribe_failed")

    with pytest.raises(InboxUnusableError):
        Task(bench, on_paused="wait").execute()


def test_an_inbox_that_initializes_is_waited_for(bench: Workbench) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, "initializing")

    assert Task(bench).execute().trigger.hold_seconds == 0


def unusable(bench: Workbench) -> type[Exception]:
    bench.service.store.inboxes.force(bench.inbox_id, "initialization_failure")
    return InboxUnusableError


def missing(bench: Workbench) -> type[Exception]:
    bench.supervisor.dags.clear()
    return TargetError


def broken(bench: Workbench) -> type[Exception]:
    bench.service.fault("status", operation="lease", status=400, times=None)
    return WorkflowError


@pytest.mark.parametrize(
    ("fault", "flag", "skips"),
    [
        (unusable, "soft_fail", True),
        (unusable, "never_fail", True),
        (unusable, None, False),
        (missing, "soft_fail", False),
        (missing, "never_fail", True),
        (broken, "soft_fail", False),
        (broken, "never_fail", True),
    ],
)
def test_a_look_before_deferring_skips_where_poke_mode_does(
    bench: Workbench, fault: Any, flag: str | None, skips: bool
) -> None:
    bench.put("a")
    kind = fault(bench)
    for deferrable in (True, False):
        task = Task(bench, deferrable=deferrable, **({flag: True} if flag else {}))
        with pytest.raises(AirflowSkipException if skips else kind):
            task.execute()
