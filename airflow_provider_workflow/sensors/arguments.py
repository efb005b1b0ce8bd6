"""Arguments of the sensor that depend on each other or on the version of Airflow."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from airflow_provider_workflow.client.arguments import intervals
from airflow_provider_workflow.options import check_choice
from airflow_provider_workflow.versions import airflow_release, needs

log = logging.getLogger(__name__)


def check_intervals(poll_interval: float, max_poll_interval: float, others: Mapping[str, Any]) -> None:
    """
    :param others: arguments that are Airflow's own.
    :raises ValueError: names the argument that is wrong.
    """
    if "poke_interval" in others:
        raise ValueError("poke_interval cannot be given: poll_interval is the interval in every mode")
    intervals(poll_interval, max_poll_interval)


def check_acknowledge(
    acknowledge: str | None, trigger_dag_id: Any, max_unfinished_runs: int | None, retries: int | None
) -> str | None:
    """
    How messages are acknowledged; None where it is by the runs that they start.

    :raises ValueError: the arguments contradict each other.
    :raises AirflowOptionalProviderFeatureException: this Airflow has nothing to keep messages in.
    """
    if trigger_dag_id is not None:
        if acknowledge is not None:
            raise ValueError(
                "acknowledge cannot be given with trigger_dag_id:"
                " a message is acknowledged once its run exists"
            )
        return None
    if max_unfinished_runs is not None:
        raise ValueError("max_unfinished_runs needs trigger_dag_id")
    chosen = check_choice("acknowledge", "auto" if acknowledge is None else acknowledge, ("auto", "manual"))
    if chosen == "manual":
        return chosen
    if airflow_release() < (3, 3):
        raise needs('acknowledge="auto"', 'give trigger_dag_id, or acknowledge="manual"')
    if not retries:
        raise ValueError(
            'retries must be 1 or more with acknowledge="auto":'
            " it is a retry that returns what a killed try received"
        )
    return chosen


def can_start_from_trigger(deferrable: bool, trigger_dag_id: Any, max_unfinished_runs: int | None) -> bool:
    """
    Whether this Airflow can begin in the trigger; before 3.3 it cannot, and a WARNING says so.

    :raises ValueError: the arguments contradict each other.
    """
    if airflow_release() < (3, 3):
        log.warning(
            "start_from_trigger needs Airflow 3.3 or later and is ignored; the task starts on a worker"
        )
        return False
    if not deferrable or trigger_dag_id is None:
        raise ValueError("start_from_trigger needs deferrable=True and trigger_dag_id")
    if max_unfinished_runs is not None:
        raise ValueError("start_from_trigger leases before room can be asked for: drop max_unfinished_runs")
    return True
