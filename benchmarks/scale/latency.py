"""
How long the notice recipe takes from a message to its DAG run, beside the floor of its own shape, in turns:
a watcher that needs no network, an asset event, a DAG run, a task, one supervisor call. And where the time
goes, by the timestamps in Airflow's database.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from benchmarks.results import Point, Row, alone, compared, in_turns
from benchmarks.servers import Database, metadata_database
from benchmarks.stage import stage
from benchmarks.timed import AT, PIPE_VARIABLE, notify
from tools.local_airflow import LocalAirflow

NOTICE, FLOOR = "notice", "floor"
SHOWN = {NOTICE: "notice recipe", FLOOR: "floor of its shape"}
ROUNDS, QUICK_ROUNDS = 30, 2
IDLE_SECONDS = 10.0
"""From the DAGs' first sight until the first message, in which the watchers begin to wait."""
MAX_SECONDS = 90.0
"""A message without a DAG run after this time ends the benchmark."""
REST_SECONDS = (3.0, 5.0)
PLOT = "scale-latency-steps"
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
OWN = (0, 6, 7)
"""The steps that are not Airflow's alone, by their index."""
LISTENER_STATE = "SELECT state FROM dag_run WHERE dag_id = %s ORDER BY id DESC LIMIT 1"
COUNT = "SELECT count(*) FROM dag_run WHERE dag_id = %s"
MOMENTS = """
    SELECT event.extra::jsonb -> 'payload' ->> %s, extract(epoch FROM event.timestamp),
        extract(epoch FROM run.queued_at), extract(epoch FROM run.start_date),
        extract(epoch FROM task.queued_dttm), extract(epoch FROM task.start_date), xcom.value ->> 'began_at',
        (SELECT extract(epoch FROM queued_at) FROM dag_run WHERE dag_id = %s ORDER BY id DESC LIMIT 1)
    FROM dag_run run
    JOIN dagrun_asset_event consumed ON consumed.dag_run_id = run.id
    JOIN asset_event event ON event.id = consumed.event_id
    JOIN task_instance task ON task.dag_id = run.dag_id AND task.run_id = run.run_id
    JOIN xcom ON xcom.dag_id = run.dag_id AND xcom.run_id = run.run_id AND xcom.key = 'return_value'
    WHERE run.dag_id = %s ORDER BY run.id DESC, event.id LIMIT 1
"""
"""When each of :data:`STEPS` ended, of the newest run of a listener, in seconds since 1970."""

Steps = Sequence[float]
"""Seconds that each of :data:`STEPS` took."""


def run(*, quick: bool, messages: int | None = None) -> list[Row]:
    """Measure; ``messages`` is the number of rounds."""
    rounds = messages or (QUICK_ROUNDS if quick else ROUNDS)
    with tempfile.TemporaryDirectory() as folder, metadata_database() as database:
        pipe = f"{folder}/floor"
        os.mkfifo(pipe)
        dag_ids = [*SHOWN, *(f"{name}_target" for name in SHOWN)]
        options = {"env": {PIPE_VARIABLE: pipe}, "sql_alchemy_conn": database.url}
        with stage("dags/steps.py", dag_ids, [NOTICE], **options) as (service, airflow):
            time.sleep(IDLE_SECONDS)
            ways: dict[str, Callable[[], Steps]] = {
                NOTICE: partial(
                    seconds_of_steps, airflow, database, NOTICE, lambda: service.put(NOTICE, {"number": 1})
                ),
                FLOOR: partial(seconds_of_steps, airflow, database, FLOOR, lambda: notify(pipe)),
            }
            return rows(in_turns(ways, rounds, REST_SECONDS))


def seconds_of_steps(
    airflow: LocalAirflow, database: Database, name: str, put_message: Callable[[], object]
) -> Steps:
    """Put one message; the seconds of each step, when its run is queued and its listener has ended."""
    target = f"{name}_target"
    before, put_at = database.value(COUNT, target), time.time()
    put_message()
    airflow.api.wait_until(
        lambda: database.value(COUNT, target) > before and database.value(LISTENER_STATE, name) == "success",
        MAX_SECONDS,
        f"a run of {target}, and the end of its listener",
        interval=0.1,
    )
    (moments,) = database.rows(MOMENTS, AT, target, name)
    return [after - moment for moment, after in itertools.pairwise([put_at, *map(float, moments)])]


def rows(samples: Mapping[str, Sequence[Steps]]) -> list[Row]:
    """The total beside that of the floor, and each step of both."""
    totals, own = (
        {
            name: [sum(steps[index] for index in indexes) for steps in series]
            for name, series in samples.items()
        }
        for indexes in (range(len(STEPS)), OWN)
    )
    beside = SHOWN[FLOOR]
    title = f"put to DAG run queued: {SHOWN[NOTICE]}"
    rows_of_steps = [
        compared(title, "s", totals[NOTICE], beside, totals[FLOOR]),
        compared(f"{title}, steps that are not Airflow's alone", "s", own[NOTICE], beside, own[FLOOR]),
    ]
    for number, step in enumerate(STEPS):
        for name, series in samples.items():
            seconds = [steps[number] for steps in series]
            point = Point(PLOT, step, SHOWN[name])
            rows_of_steps.append(alone(f"{SHOWN[name]}, step {number + 1}: {step}", "s", seconds, point))
    return rows_of_steps
