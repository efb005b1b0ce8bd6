"""The steps from a message to its DAG run, and when each ended, as Airflow's database has it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from airflow_provider_workflow.emulator.web.context import LoggedRequest
from benchmarks.scale.deployment import Database
from benchmarks.scale.timed import AT, BEGAN, LOADED

STEPS = (
    "the trigger emits an event",
    "the triggerer stores it",
    "the scheduler creates the DAG run",
    "the scheduler starts it",
    "the scheduler queues its task",
    "the executor starts the task",
    "the task loads its DAG file",
    "the operator starts the message's DAG run",
)
"""Each begins when the one before has ended, the first when the message is put."""
IN_OPERATOR = (
    "it imports its modules",
    "it checks its target, and connects to the service",
    "it finds the inbox",
    "it leases, and starts the message's DAG run",
)
"""The parts of the last step, of an operator that leases."""
OWN = (0, 6, 7)
"""The steps that are not Airflow's alone, by their index."""
LAST_RUN = """
    SELECT id, run_id, extract(epoch FROM queued_at)::float8, extract(epoch FROM start_date)::float8
    FROM dag_run WHERE dag_id = %s ORDER BY id DESC LIMIT 1
"""
EVENT = """
    SELECT extract(epoch FROM event.timestamp)::float8, event.extra::jsonb -> 'payload' ->> %s
    FROM dagrun_asset_event consumed JOIN asset_event event ON event.id = consumed.event_id
    WHERE consumed.dag_run_id = %s ORDER BY event.id LIMIT 1
"""
TASK = """
    SELECT extract(epoch FROM queued_dttm)::float8, extract(epoch FROM start_date)::float8
    FROM task_instance WHERE dag_id = %s AND run_id = %s
"""
RESULT = "SELECT value FROM xcom WHERE dag_id = %s AND run_id = %s AND key = 'return_value'"


@dataclass(frozen=True)
class Moments:
    """
    When things happened, in seconds since 1970.

    :param put_at: the message was put.
    :param ended: each of :data:`STEPS` ended.
    :param loaded_at: the operator had imported its modules; None where it has none to import.
    """

    put_at: float
    ended: tuple[float, ...]
    loaded_at: float | None = None


@dataclass(frozen=True)
class Taken:
    """
    Seconds that one message took.

    :param steps: of each of :data:`STEPS`.
    :param in_operator: of each of :data:`IN_OPERATOR`; empty for an operator that does not lease.
    """

    steps: tuple[float, ...]
    in_operator: tuple[float, ...] = ()

    @property
    def total(self) -> float:
        return sum(self.steps)

    @property
    def own(self) -> float:
        """Of the steps that are not Airflow's alone."""
        return sum(self.steps[index] for index in OWN)


def between(moments: Iterable[float]) -> tuple[float, ...]:
    """Seconds from each moment to the next."""
    return tuple(after - before for before, after in itertools.pairwise(moments))


def taken(moments: Moments, requests: Iterable[LoggedRequest]) -> Taken:
    """
    What a message took.

    :param requests: to the service, in their order; those of the operator count.
    """
    steps = between([moments.put_at, *moments.ended])
    began_at, ended_at = moments.ended[-2:]
    mine = [each for each in requests if began_at <= each.at <= ended_at]
    leased_at = next((each.at for each in mine if each.operation == "lease"), None)
    if leased_at is None or moments.loaded_at is None:
        return Taken(steps)
    return Taken(steps, between([began_at, moments.loaded_at, mine[0].at, leased_at, ended_at]))


def moments_of(database: Database, listener: str, target: str, put_at: float) -> Moments:
    """
    The moments of the newest run of a listener, which has ended.

    :param target: the DAG that it started.
    """
    row_id, run_id, created_at, started_at = database.rows(LAST_RUN, listener)[0]
    stored_at, emitted_at = database.rows(EVENT, AT, row_id)[0]
    queued_at, task_began_at = database.rows(TASK, listener, run_id)[0]
    result = database.value(RESULT, listener, run_id)
    _, _, there_at, _ = database.rows(LAST_RUN, target)[0]
    of_run = (created_at, started_at, queued_at, task_began_at)
    ended = (float(emitted_at), stored_at, *of_run, result[BEGAN], there_at)
    return Moments(put_at, ended, result.get(LOADED))
