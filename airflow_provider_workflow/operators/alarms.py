"""What a dispatch operator and a sensor do about a source in trouble: rarely fail, and remember that."""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_workflow.source import Alarm

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_workflow.source import SourceProblem

log = logging.getLogger(__name__)

ALARM_KEY = "workflow_alarm"
"""XCom: the trouble of the source, a record of ``Alarm``. Only a run that meets a problem stores one."""
MAX_WATCH_SECONDS = 180.0
"""How long a process that no later one continues waits for the reading that makes a problem an alarm."""
MARGIN_SECONDS = 60.0
"""More than the longest pause between two readings."""


class RaisesAlarms:
    """
    Fails a task if a problem of its source is an alarm.

    The runs of a DAG share one alarm by an XCom. Airflow returns the newest one of all earlier runs, also of
    runs without a logical date.
    """

    @cached_property
    def _alarm(self) -> Alarm:
        return Alarm()

    @property
    def _watch_seconds(self) -> float:
        """How long a process that no later one continues waits until a problem is an alarm, at most."""
        problem = self._alarm.problem
        return max(MAX_WATCH_SECONDS, MARGIN_SECONDS + problem.seconds_to_alarm if problem else 0.0)

    def _found(self, problem: SourceProblem, context: Context) -> None:
        """Take a reading with a problem; the first one of a process reads what earlier runs recorded."""
        self._recall_alarm(context)
        self._alarm.found(problem)

    def _recall_alarm(self, context: Context) -> None:
        """Continue the trouble that an earlier run recorded, unless this process did so before."""
        if self._alarm.is_recalled:
            return
        ti: Any = context["ti"]
        record = last_run = None
        with suppress(Exception):  # without it an alarm may be repeated
            record = ti.xcom_pull(key=ALARM_KEY, include_prior_dates=True, map_indexes=ti.map_index)
            last_run = ti.get_previous_dagrun() if record else None
        # A run after that of the record found the source sound, or it would have recorded its problem.
        ended_at = getattr(last_run, "end_date", None)
        self._alarm.recall(record, ended_at.timestamp() if ended_at else None)

    def _store_alarm(self, context: Context) -> None:
        """Let later runs know of the trouble, with the part of earlier runs; store nothing without one."""
        if self._alarm.began_at is not None:
            self._recall_alarm(context)
            context["ti"].xcom_push(ALARM_KEY, self._alarm.record())

    def _raise_alarm(self, context: Context, text: str) -> None:
        """:raises AirflowFailException: always, with the text and when the trouble began."""
        self._alarm.raised()
        self._store_alarm(context)
        raise AirflowFailException(f"{text} (since {self._alarm.since})")
