"""Arguments of the sensor: each error names the field and what it may be."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from airflow.exceptions import AirflowOptionalProviderFeatureException

from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from tests.unit.sensors.tasks import sensor

Release = Callable[[int, int], None]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"lease_limit": 0}, "lease_limit must be a whole number from 1 to 100"),
        ({"poll_interval": 0}, "poll_interval must be a number of seconds above 0, not 0"),
        ({"poll_interval": float("nan")}, "poll_interval must be a number of seconds above 0"),
        ({"max_poll_interval": float("inf")}, "max_poll_interval must be a number of seconds above 0"),
        ({"poll_interval": 61}, r"poll_interval \(61 s\) must be at most max_poll_interval \(60 s\)"),
        ({"poke_interval": 30}, "poke_interval cannot be given: poll_interval is the interval"),
        ({"on_refused": "skip"}, "on_refused must be one of 'fail', 'log'"),
        ({"on_paused": "log"}, "on_paused must be one of 'fail', 'wait'"),
        ({"match": "&&"}, "match is no valid JMESPath"),
        ({"trigger_dag_id": ""}, "trigger_dag_id must name at least one DAG"),
        ({"acknowledge": "manual"}, "acknowledge cannot be given with trigger_dag_id"),
        ({"trigger_dag_id": None, "acknowledge": "never"}, "acknowledge must be one of 'auto', 'manual'"),
        pytest.param(
            {"trigger_dag_id": None, "retries": 0},
            'retries must be 1 or more with acknowledge="auto"',
            marks=pytest.mark.since(3, 3, "the task state store"),
        ),
        ({"trigger_dag_id": None, "max_unfinished_runs": 5}, "max_unfinished_runs needs trigger_dag_id"),
        ({"wake_on_events": "False"}, "wake_on_events must be True or False"),
        ({"start_from_trigger": "yes"}, "start_from_trigger must be True or False"),
        ({"silent_fail": True}, "silent_fail cannot be used with deferrable=True: .* retries, soft_fail or"),
        ({"max_wait": 600}, r"max_wait cannot be used with deferrable=True: give max_poll_interval .*60\)"),
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
def test_only_retries_of_auto_are_asked_for() -> None:
    assert sensor(retries=0).acknowledge is None
    assert sensor(retries=0, trigger_dag_id=None, acknowledge="manual").acknowledge == "manual"
    assert sensor(trigger_dag_id=None).acknowledge == "auto"


@pytest.mark.parametrize("minor", [1, 2])
def test_before_airflow_3_3_auto_is_refused_with_both_ways_out(release: Release, minor: int) -> None:
    release(3, minor)

    for given in (None, "auto"):
        with pytest.raises(
            AirflowOptionalProviderFeatureException,
            match=r'Airflow 3\.3 or later.*give trigger_dag_id, or acknowledge="manual"',
        ):
            sensor(trigger_dag_id=None, acknowledge=given)
    assert sensor(trigger_dag_id=None, acknowledge="manual").acknowledge == "manual"
    assert sensor().acknowledge is None


@pytest.mark.parametrize("configured", [True, False])
def test_deferrable_is_airflows_default_at_construction(
    monkeypatch: pytest.MonkeyPatch, configured: bool
) -> None:
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", str(configured))
    made = sensor(deferrable=None)
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", str(not configured))

    assert made.deferrable is configured
    assert sensor(deferrable=True).deferrable is True
    assert sensor(deferrable=False).deferrable is False


def test_the_poll_interval_is_the_interval_of_the_other_modes() -> None:
    assert sensor(poll_interval=7, mode="poke", deferrable=False).poke_interval == 7


def test_a_default_of_the_whole_dag_is_no_poke_interval_given() -> None:
    assert sensor(default_args={"poke_interval": 99}, poll_interval=7).poke_interval == 7


def test_the_options_of_poking_are_airflows_own_where_the_sensor_pokes() -> None:
    options: dict[str, Any] = {"silent_fail": True, "exponential_backoff": True, "max_wait": 600}
    made = sensor(deferrable=False, **options)

    assert (made.silent_fail, made.exponential_backoff, made.max_wait) == (True, True, timedelta(minutes=10))


def test_exponential_backoff_is_taken_as_a_deferred_sensor_waits_so_anyway() -> None:
    assert sensor(exponential_backoff=True).exponential_backoff is True


def test_start_from_trigger_is_off_by_default() -> None:
    assert WorkflowInboxSensor.start_from_trigger is False
    assert sensor().start_from_trigger is False


@pytest.mark.since(3, 3, "start_from_trigger")
def test_start_from_trigger_begins_in_the_trigger_with_a_pilot() -> None:
    made = sensor(start_from_trigger=True, inbox="{{ params.inbox }}", timeout=90, lease_seconds=120)
    begun = made.start_trigger_args

    assert made.start_from_trigger is True
    assert begun.trigger_cls == "airflow_provider_workflow.triggers.inbox.WorkflowInboxTrigger"
    assert begun.next_method == "resume"
    assert begun.timeout is not None
    assert begun.timeout.total_seconds() == 90
    assert begun.trigger_kwargs is not None
    assert begun.trigger_kwargs["inbox"] == "{{ params.inbox }}"
    assert begun.trigger_kwargs["lease_seconds"] == 3600
    # Nothing has checked yet that runs can be started.
    assert begun.trigger_kwargs["lease_limit"] == 1
    assert WorkflowInboxSensor.start_trigger_args is None


@pytest.mark.since(3, 3, "start_from_trigger")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"deferrable": False}, "needs deferrable=True and trigger_dag_id"),
        ({"trigger_dag_id": None}, "needs deferrable=True and trigger_dag_id"),
        ({"max_unfinished_runs": 5}, "leases before the capacity is known"),
    ],
)
def test_start_from_trigger_refuses_what_it_cannot_do(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=f"^start_from_trigger {text}"):
        sensor(start_from_trigger=True, **arguments)


@pytest.mark.parametrize("minor", [1, 2])
def test_before_airflow_3_3_start_from_trigger_is_ignored_with_a_warning(
    release: Release, minor: int, caplog: pytest.LogCaptureFixture
) -> None:
    release(3, minor)

    assert sensor(start_from_trigger=True).start_from_trigger is False
    assert "start_from_trigger needs Airflow 3.3 or later and is ignored" in caplog.text


def test_what_a_template_may_hold_is_templated() -> None:
    assert set(WorkflowInboxSensor.template_fields) == {
        "inbox",
        "trigger_dag_id",
        "match",
        "dead_letter_dag_id",
        "workflow_conn_id",
    }
