"""Airflow: target DAGs that break and are repaired, their runs, and what a task may ask its supervisor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tests.unit.fakes import api_error, lost

if TYPE_CHECKING:
    from tests.simulation.world import World

WORKING = "working"
MISSING = "missing"
IMPORT_ERROR = "import error"
REJECTS = "rejects every conf"
AWAY = "API server away"
BROKEN = (MISSING, IMPORT_ERROR, REJECTS, AWAY)
REFUSED = "API_SERVER_ERROR"
"""An answer that is neither an exception nor a run that exists."""
DEAD_LETTER = "dead letter"
"""The name of a request that starts a run of the dead-letter DAG."""


@dataclass
class Run:
    """
    A DAG run.

    :param ends_at: when it is no longer queued or running.
    """

    dag_id: str
    run_id: str
    conf: dict[str, Any]
    ends_at: float


@dataclass
class Airflow:
    """
    The part of Airflow that tasks see.

    :param states: of each target DAG.
    :param runs: by DAG and run id.
    """

    world: World
    states: dict[str, str] = field(default_factory=dict)
    runs: dict[tuple[str, str], Run] = field(default_factory=dict)

    def call(self, operation: str, effect: Callable[[], Any], details: str) -> Any:
        """One request to the supervisor: it takes time, and may fail before or after its effect."""
        world = self.world
        fault = world.draw_airflow_fault()
        process, starts = world.process, world.ledger.starts
        note = partial(world.note, process, f"{operation} {details}")
        world.pause(world.latency())
        if fault == "before" or AWAY in self.states.values():
            note("API server away")
            starts.airflow_failed(process, operation, None)
            raise lost("ConnectError")
        try:
            result = effect()
        except Exception as error:
            note(error.error.detail)  # type: ignore[attr-defined]
            world.pause(world.latency())
            starts.airflow_failed(process, operation, error)
            raise
        if world.random.random() < 0.3 or fault:
            world.pause(world.latency())
        if fault in ("after", "error after"):
            api_failure = lost("ReadError") if fault == "after" else api_error(503)
            note(f"{result}, but the answer is {'lost' if fault == 'after' else '503'}")
            starts.airflow_failed(process, operation, None if fault == "after" else api_failure)
            raise api_failure
        note(result)
        return result

    # What is replaced in the package

    def stored_dag_run(self, dag_id: str, run_id: str) -> Any:
        """``airflow_internals.stored_dag_run``."""

        def effect() -> Any:
            return SimpleNamespace(conf=self.runs[dag_id, run_id].conf, triggering_user_name=None)

        return self.call("stored run", effect, f"{dag_id} {run_id[:40]}")

    def trigger_dag_run(self, dag_id: str, run_id: str, conf: dict[str, Any], note: str | None) -> str | None:
        """``airflow_internals.trigger_dag_run``."""
        process, starts = self.world.process, self.world.ledger.starts
        is_dead_letter = dag_id == self.world.plan.dead_letter_dag_id
        if is_dead_letter:
            starts.dead_letter_issued(process, conf)
        else:
            starts.start_issued(process, dag_id, conf)
            self.world.meet_killer(process, conf)

        def effect() -> str | None:
            if self.world.draw_airflow_fault():
                return REFUSED
            answer = self._start(dag_id, run_id, conf)
            return "DAGRUN_ALREADY_EXISTS" if answer is None else None

        operation = DEAD_LETTER if is_dead_letter else "start"
        result: str | None = self.call(operation, effect, f"{dag_id} {run_id[:40]}")
        if result == REFUSED:
            starts.airflow_failed(process, operation, None)
        elif not is_dead_letter:
            starts.start_answered(process, dag_id, existing=result is not None)
        return result

    def _start(self, dag_id: str, run_id: str, conf: dict[str, Any]) -> Run | None:
        process, starts = self.world.process, self.world.ledger.starts
        state = self.states.get(dag_id, MISSING)
        if state == MISSING:
            raise api_error(404, "not_found")
        if state == IMPORT_ERROR:
            raise api_error(400, "import_errors")
        starts.takes_effect(process, conf)
        if (run := self.runs.get((dag_id, run_id))) is not None:
            starts.run_exists(process, run, conf)
            return None
        if state == REJECTS or self.world.is_poison(dag_id, conf):
            # A rejected run is a 400 from Airflow 3.3 on, and a 500 without JSON before.
            if self.world.plan.release < (3, 3):
                raise lost("HTTPStatusError")
            raise api_error(400, "value_error", "Invalid input for param order: 1 is not of type 'string'")
        run = Run(dag_id, run_id, conf, self.world.scheduler.now + self.world.plan.run_seconds)
        self.runs[dag_id, run_id] = run
        starts.run_created(process, run)
        self.world.run_was_created(dag_id, len(self.runs))
        return run

    def unfinished(self, dag_id: str) -> int:
        """Runs of a DAG that are queued or running."""
        now = self.world.scheduler.now
        return sum(run.dag_id == dag_id and run.ends_at > now for run in self.runs.values())


@dataclass
class TaskInstance:
    """The running task."""

    world: World
    dag_id: str
    try_number: int
    run_id: str
    map_index: int = -1

    def get_dr_count(
        self, dag_id: str, states: list[str] | None = None, run_ids: list[str] | None = None
    ) -> int:
        airflow, starts = self.world.airflow, self.world.ledger.starts
        count: int
        if run_ids is None:
            count = airflow.call("count", lambda: airflow.unfinished(dag_id), f"{dag_id} {states}")
            return count
        starts.search_issued(self.world.process, run_ids)
        count = airflow.call(
            "look for",
            lambda: sum((dag_id, other_run_id) in airflow.runs for other_run_id in run_ids),
            f"{dag_id} {run_ids or states}",
        )
        if dag_id != self.world.plan.dead_letter_dag_id:
            starts.search_answered(self.world.process, dag_id, bool(count))
        return count

    def get_previous_dagrun(self) -> None:
        """No run: alarms about failures that repeat are not simulated."""

    def xcom_push(self, key: str, value: str) -> None:
        """Nothing: only a run after this one reads it."""

    def xcom_pull(self, **_: object) -> None:
        """Nothing, as nothing was stored."""

    def get_dag(self, dag_id: str) -> str:
        def effect() -> str:
            if self.world.airflow.states.get(dag_id, MISSING) == MISSING:
                raise api_error(404, "not_found")
            return dag_id

        result: str = self.world.airflow.call("get", effect, dag_id)
        return result
