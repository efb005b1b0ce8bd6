"""The sensor: arguments, connections, and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.exceptions import AirflowOptionalProviderFeatureException, AirflowRescheduleException
from airflow.providers.common.compat.sdk import (
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
)
from airflow.sdk import DAG

from airflow_provider_workflow import clock
from airflow_provider_workflow.client import sync_client
from airflow_provider_workflow.client.errors import WorkflowError
from airflow_provider_workflow.dispatch.holding import TaskKilled
from airflow_provider_workflow.dispatch.routing import Routes
from airflow_provider_workflow.dispatch.run_errors import TargetError
from airflow_provider_workflow.source import Alarm
from tests.unit.fake_clock import FakeClock, nothing
from tests.unit.fakes import api_error
from tests.unit.loading import modules_of
from tests.unit.sensors.tasks import POLL, Task, message_ids, sensor
from tests.unit.workbench import INBOX, TaskTimeout, Workbench

WEEK = 7 * 86400.0


def test_messages_that_are_there_are_dispatched_without_a_deferral(bench: Workbench) -> None:
    bench.put("a", "b")

    assert Task(bench).execute()["started"] == {"count": 2, "ids": ["a", "b"]}
    assert bench.states == {}


def test_an_empty_inbox_is_waited_for_in_the_triggerer(bench: Workbench, fake_clock: FakeClock) -> None:
    task = Task(bench, lease_limit=50, lease_seconds=120, poll_interval=3, wake_on_events=False)
    deferral = task.execute()

    # Its other arguments are those of the file of the next release, in tests/unit/stored.
    trigger_arguments = {"lease_limit": 1, "lease_seconds": 120, "poll_interval": 3, "wake_on_events": False}
    assert trigger_arguments.items() <= deferral.trigger.serialize()[1].items()
    assert deferral.method_name == "resume"
    assert deferral.kwargs["deadline"] == fake_clock.now() + WEEK
    assert deferral.timeout.total_seconds() == WEEK


def test_a_trigger_stays_quiet_until_airflow_has_noticed_the_deferral(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL", "9")

    assert Task(bench).execute().trigger.settle_seconds == 14


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


def test_a_deferral_shortly_before_the_timeout_lasts_until_airflow_has_noticed_it(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    """At the timeout Airflow queues the task again; before it has noticed the deferral it fails the task."""
    task = Task(bench, timeout=100)
    first = task.execute()
    fake_clock.advance(99)
    second = task.resume(first, POLL)

    assert second.kwargs["deadline"] == first.kwargs["deadline"]
    assert second.timeout.total_seconds() == second.trigger.settle_seconds > 1


def test_a_refused_message_is_only_logged_where_asked(bench: Workbench) -> None:
    bench.supervisor.refuse("bad", api_error(422))
    bench.put("a", "bad")

    assert Task(bench, on_rejected="log").execute()["rejected"]["ids"] == ["bad"]


def unusable(bench: Workbench) -> type[Exception]:
    bench.service.store.inboxes.force(bench.inbox_id, "initialization_failure")
    at = clock.now() - 90
    record = Alarm(kind="failed", began_at=at, problem_at=at).record()
    bench.ti.xcoms.clear()
    bench.ti.xcoms["before", "workflow_alarm", -1] = record
    return AirflowFailException


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
    for deferrable in (True, False):
        kind = fault(bench)
        task = Task(bench, deferrable=deferrable, **({flag: True} if flag else {}))
        with pytest.raises(AirflowSkipException if skips else kind):
            task.execute()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"lease_limit": 0}, "lease_limit must be a whole number from 1 to 100"),
        ({"poll_interval": 0}, "poll_interval must be a number of seconds above 0, not 0"),
        ({"max_poll_interval": float("inf")}, "max_poll_interval must be a number of seconds above 0"),
        ({"poll_interval": 61}, r"poll_interval \(61 s\) must be at most max_poll_interval \(60 s\)"),
        ({"poke_interval": 30}, "poke_interval cannot be given: poll_interval is the interval"),
        ({"on_rejected": "skip"}, "on_rejected must be one of 'fail', 'log'"),
        ({"on_paused": "log"}, "on_paused must be one of 'fail', 'wait'"),
        ({"unmatched": "drop"}, "unmatched must be one of 'lease', 'dead_letter'"),
        ({"unmatched": "dead_letter"}, 'unmatched="dead_letter" needs dead_letter_dag_id'),
        ({"dead_letter_dag_id": "dead", "dead_letter_after": 0}, "dead_letter_after must be a whole number"),
        ({"dead_letter_dag_id": " "}, "dead_letter_dag_id must"),
        ({"trigger_dag_id": None, "dead_letter_dag_id": "dead"}, "dead_letter_dag_id needs trigger_dag_id"),
        (
            {"trigger_dag_id": {"urgent": "payload.n", "other": "payload"}, "dead_letter_dag_id": "urgent"},
            "dead_letter_dag_id must name another DAG than trigger_dag_id, which",
        ),
        ({"match": "&&"}, "match is no valid JMESPath"),
        ({"trigger_dag_id": ""}, "trigger_dag_id must name at least one DAG"),
        ({"trigger_dag_id": DAG("ship")}, "trigger_dag_id must have the id of the DAG, 'ship', not the DAG"),
        ({"trigger_dag_id": {DAG("ship"): "payload"}}, "trigger_dag_id must have the id of the DAG, 'ship'"),
        ({"deferrable": "False"}, "deferrable must be True or False"),
        ({"acknowledge": "manual"}, "acknowledge cannot be given with trigger_dag_id"),
        ({"trigger_dag_id": None, "acknowledge": "never"}, "acknowledge must be one of 'auto', 'manual'"),
        pytest.param(
            {"trigger_dag_id": None, "retries": 0},
            'retries must be 1 or more with acknowledge="auto"',
            marks=pytest.mark.since(3, 3, "the task state store"),
        ),
        *(
            pytest.param(
                {"trigger_dag_id": None, **arguments},
                text,
                marks=pytest.mark.since(3, 3, "the task state store"),
            )
            for arguments, text in (
                (
                    {"do_xcom_push": False},
                    'do_xcom_push must be True with acknowledge="auto": messages would be',
                ),
                ({"default_args": {"do_xcom_push": False}}, "do_xcom_push must be True"),
                ({"multiple_outputs": True}, 'multiple_outputs must be False with acknowledge="auto"'),
            )
        ),
        (
            {"trigger_dag_id": None, "acknowledge": "manual", "do_xcom_push": False},
            'do_xcom_push must be True with acknowledge="manual": the lease would be',
        ),
        ({"trigger_dag_id": None, "max_unfinished_runs": 5}, "max_unfinished_runs needs trigger_dag_id"),
        ({"wake_on_events": "False"}, "wake_on_events must be True or False"),
        ({"silent_fail": True}, "silent_fail cannot be used with deferrable=True: give retries, soft_fail"),
        (
            {"max_wait": 600},
            r"max_wait cannot be used with deferrable=True: give .* max_poll_interval .*60\)",
        ),
        (
            {"default_args": {"max_wait": timedelta(minutes=10)}},
            "max_wait cannot be used with deferrable=True",
        ),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}"):
        sensor(**arguments)


@pytest.mark.since(3, 3, "the task state store")
def test_a_sensor_that_starts_runs_needs_neither_retries_nor_an_xcom() -> None:
    assert sensor(do_xcom_push=False, multiple_outputs=True).acknowledge is None
    assert sensor(retries=0).acknowledge is None
    assert sensor(retries=0, trigger_dag_id=None, acknowledge="manual").acknowledge == "manual"
    assert sensor(trigger_dag_id=None).acknowledge == "auto"


def test_before_airflow_3_3_auto_is_refused_with_both_ways_out(release: Callable[[int, int], None]) -> None:
    release(3, 2)

    for mode in (None, "auto"):
        with pytest.raises(
            AirflowOptionalProviderFeatureException,
            match=r'Airflow 3\.3 or later.*give trigger_dag_id, or acknowledge="manual"',
        ):
            sensor(trigger_dag_id=None, acknowledge=mode)
    assert sensor(trigger_dag_id=None, acknowledge="manual").acknowledge == "manual"
    assert sensor().acknowledge is None


@pytest.mark.slow
@pytest.mark.parametrize("configured", [True, False])
def test_whether_a_sensor_waits_in_the_triggerer_is_airflows_default(configured: bool) -> None:
    modules_of(
        f"import os; os.environ['AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE'] = {str(configured)!r}\n"
        "from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor\n"
        "sensor = WorkflowInboxSensor(task_id='t', inbox='orders', trigger_dag_id='handle')\n"
        f"assert sensor.deferrable is {configured}"
    )


@pytest.mark.parametrize("value", [None, "False"])
def test_whether_a_sensor_waits_in_the_triggerer_is_true_or_false(value: Any) -> None:
    with pytest.raises(ValueError, match="deferrable must be True or False"):
        sensor(deferrable=value)


def test_the_poll_interval_is_the_interval_of_the_other_modes() -> None:
    assert sensor(poll_interval=7, mode="poke", deferrable=False).poke_interval == 7


def test_without_a_trigger_a_sensor_may_poll_more_seldom_than_a_trigger_does() -> None:
    assert sensor(deferrable=False, poll_interval=300).poke_interval == 300


def test_a_default_of_the_whole_dag_is_no_poke_interval_given() -> None:
    assert sensor(default_args={"poke_interval": 99}, poll_interval=7).poke_interval == 7


def test_the_options_of_poking_are_airflows_own_where_the_sensor_pokes() -> None:
    options: dict[str, Any] = {"silent_fail": True, "exponential_backoff": True, "max_wait": 600}
    operator = sensor(deferrable=False, **options)

    assert (operator.silent_fail, operator.exponential_backoff, operator.max_wait) == (
        True,
        True,
        timedelta(minutes=10),
    )


def test_exponential_backoff_is_taken_as_a_deferred_sensor_waits_so_anyway() -> None:
    assert sensor(exponential_backoff=True).exponential_backoff is True


@pytest.fixture
def wires(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """How many connections of tasks were opened, and how many of them are open."""
    # The look for quarantined messages has a short connection of its own.
    monkeypatch.setenv("AIRFLOW__WORKFLOW__QUARANTINE_CHECK_SECONDS", "0")
    counts = SimpleNamespace(opened=0, open=0)

    class CountedWire(sync_client.RequestsWire):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            counts.opened += 1
            counts.open += 1

        def close(self) -> None:
            super().close()
            counts.open -= 1

    monkeypatch.setattr(sync_client, "RequestsWire", CountedWire)
    return counts


def test_a_sensor_that_pokes_keeps_one_connection_and_closes_it(
    bench: Workbench, pauses: FakeClock, wires: SimpleNamespace
) -> None:
    pauses.then(nothing, lambda: bench.put("a"))
    Task(bench, deferrable=False).execute()

    assert bench.service.count("lease") > 2
    assert (wires.opened, wires.open) == (1, 0)


def test_the_connection_is_closed_however_the_sensor_leaves_its_worker(
    bench: Workbench, wires: SimpleNamespace
) -> None:
    task = Task(bench)
    deferral = task.execute()
    assert (wires.opened, wires.open) == (1, 0)
    task.resume(deferral, POLL)
    assert (wires.opened, wires.open) == (2, 0)
    with pytest.raises(AirflowRescheduleException):
        Task(bench, deferrable=False, mode="reschedule").execute()
    bench.service.fault("status", operation="lease", status=400, times=None)
    with pytest.raises(WorkflowError):
        Task(bench).execute()
    assert wires.opened == 4
    assert wires.open == 0


@pytest.mark.parametrize("returns", [False, True])
def test_a_task_that_is_ended_while_it_works_closes_both_of_its_connections(
    bench: Workbench, wires: SimpleNamespace, returns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one releases the lease, without repeats."""
    bench.put("a")
    if returns:
        monkeypatch.setattr(Routes, "accepts", Mock(side_effect=TaskTimeout))
    bench.supervisor.faults.append(Mock(side_effect=TaskTimeout))
    task = Task(bench, **({"trigger_dag_id": None, "acknowledge": "manual"} if returns else {}))

    with pytest.raises(TaskTimeout):
        task.execute()
    assert bench.service.count("release") == 1
    assert (wires.opened, wires.open) == (2, 0)


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_resumed_task_that_is_ended_before_it_works_closes_both_of_its_connections(
    bench: Workbench, wires: SimpleNamespace, is_killed: bool
) -> None:
    bench.put("a")
    task = Task(bench)
    event = task.leased()
    bench.hook.close()
    wires.opened = wires.open = 0
    if is_killed:
        task.sensor.on_kill()
    else:
        bench.ti.get_dag = Mock(side_effect=TaskTimeout)  # type: ignore[method-assign]

    with pytest.raises(TaskKilled if is_killed else TaskTimeout):
        task.sensor.resume_execution("resume", {"event": event}, task.context)
    assert bench.service.count("release") == 1
    assert wires.open == 0


def test_a_lease_of_a_deleted_inbox_starts_its_runs_and_the_next_poll_those_of_the_new_one(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    task = Task(bench)
    deferral = task.execute()
    bench.put("a")
    event = task.leased()
    bench.hook.delete_inbox(INBOX)
    new_id = bench.service.open_inbox(INBOX)
    bench.put("b")

    deferral = task.resume(deferral, event)
    assert message_ids(task.resume(deferral, POLL)) == ["a", "b"]
    inbox_ids = [conf["inbox_id"] for conf in bench.supervisor.runs.values()]
    assert inbox_ids == [bench.inbox_id, new_id]
    assert bench.states == {}


@pytest.mark.since(3, 3, "the task state store")
def test_messages_that_the_trigger_leased_of_the_deleted_inbox_are_returned(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    task = Task(bench, trigger_dag_id=None)
    deferral = task.execute()
    bench.put("a")
    event = task.leased()
    bench.hook.delete_inbox(INBOX)

    assert [message["id"] for message in task.resume(deferral, event)] == ["a"]
    assert fake_clock.slept == []
