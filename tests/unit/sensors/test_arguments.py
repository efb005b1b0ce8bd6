"""Arguments of the sensor: each error names the field and what it may be."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from airflow.exceptions import AirflowOptionalProviderFeatureException
from airflow.sdk import DAG, task

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
        ({"on_rejected": "skip"}, "on_rejected must be one of 'fail', 'log'"),
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


def test_the_output_of_another_task_may_be_an_argument_and_a_sensor_may_be_mapped() -> None:
    with DAG("listener", schedule=None) as dag:

        @task
        def chosen() -> str:
            return "orders"

        sensor(inbox=chosen(), workflow_conn_id=chosen())
        mapped = {"task_id": "mapped", "trigger_dag_id": "handle", "deferrable": True}
        WorkflowInboxSensor.partial(**mapped).expand(inbox=["orders", "invoices"])

    assert dag.get_task("wait").upstream_task_ids == {"chosen", "chosen__1"}
    assert dag.get_task("mapped").retries == 20


def test_what_a_template_may_hold_is_templated() -> None:
    assert set(WorkflowInboxSensor.template_fields) == {
        "inbox",
        "trigger_dag_id",
        "match",
        "dead_letter_dag_id",
        "workflow_conn_id",
    }
