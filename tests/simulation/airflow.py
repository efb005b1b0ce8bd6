"""Airflow: target DAGs that break and are repaired, their runs, and what a task may ask its supervisor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
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
"""What the start of a run of the dead-letter DAG is called."""


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

    def call(self, what: str, effect: Callable[[], Any], where: str) -> Any:
        """One request to the supervisor: it takes time, and may fail before or after its effect."""
        world = self.world
        fault = world.draw_airflow_fault()
        process = world.process
        world.pause(world.latency())
        if fault == "before" or AWAY in self.states.values():
            world.note(process, f"{what} {where}", "API server away")
            world.ledger.starts.airflow_failed(process, what, None)
            raise lost("ConnectError")
        try:
            result = effect()
        except Exception as error:
            world.note(process, f"{what} {where}", error.error.detail)  # type: ignore[attr-defined]
            world.pause(world.latency())
            world.ledger.starts.airflow_failed(process, what, error)
            raise
        if world.random.random() < 0.3 or fault:
            world.pause(world.latency())
        if fault == "after":
            world.note(process, f"{what} {where}", f"{result}, but the answer is lost")
            world.ledger.starts.airflow_failed(process, what, None)
            raise lost("ReadError")
        if fault == "error after":
            world.note(process, f"{what} {where}", f"{result}, but the answer is 503")
            failed = api_error(503)
            world.ledger.starts.airflow_failed(process, what, failed)
            raise failed
        world.note(process, f"{what} {where}", result)
        return result

    # What is replaced in the package

    def stored_dag_run(self, dag_id: str, run_id: str) -> Any:
        """``airflow_internals.stored_dag_run``."""

        def effect() -> Any:
            return SimpleNamespace(conf=self.runs[dag_id, run_id].conf, triggering_user_name=None)

        return self.call("stored run", effect, f"{dag_id} {run_id[:40]}")

    def trigger_dag_run(self, dag_id: str, run_id: str, conf: dict[str, Any], note: str | None) -> str | None:
        """``airflow_internals.trigger_dag_run``."""
        process, ledger = self.world.process, self.world.ledger
        what = "start"
        if dag_id == self.world.plan.dead_letter_dag_id:
            what = DEAD_LETTER
            ledger.letters.start_issued(process, conf)
        else:
            ledger.starts.issued(process, dag_id, conf)

        def effect() -> str | None:
            if self.world.draw_airflow_fault():
                return REFUSED
            answer = self._start(dag_id, run_id, conf)
            return "DAGRUN_ALREADY_EXISTS" if answer is None else None

        where = f"{dag_id} {run_id[:40]}"
        result: str | None = self.call(what, effect, where)
        if result == REFUSED:
            ledger.starts.airflow_failed(process, what, None)
        elif what == "start":
            ledger.starts.answered(process, dag_id, existing=result is not None)
        return result

    def _start(self, dag_id: str, run_id: str, conf: dict[str, Any]) -> Run | None:
        state = self.states.get(dag_id, MISSING)
        if state == MISSING:
            raise api_error(404, "not_found")
        if state == IMPORT_ERROR:
            raise api_error(400, "import_errors")
        self.world.ledger.starts.takes_effect(self.world.process, conf)
        if (run := self.runs.get((dag_id, run_id))) is not None:
            self.world.ledger.starts.exists(self.world.process, run, conf)
            return None
        if state == REJECTS or self.world.is_poison(dag_id, conf):
            raise self._rejection()
        run = Run(dag_id, run_id, conf, self.world.scheduler.now + self.world.plan.run_seconds)
        self.runs[dag_id, run_id] = run
        self.world.ledger.starts.created(self.world.process, run)
        self.world.run_was_created(dag_id, len(self.runs))
        return run

    def _rejection(self) -> Exception:
        """A rejected run is a 400 from Airflow 3.3 on, and a 500 without JSON before."""
        if self.world.plan.release >= (3, 3):
            return api_error(400, "value_error", "Invalid input for param order: 1 is not of type 'string'")
        return lost("HTTPStatusError")

    def count(self, dag_id: str, states: list[str] | None, run_ids: list[str] | None) -> int:
        """The answer to ``get_dr_count`` for a target DAG."""
        if run_ids is not None:
            return sum((dag_id, each) in self.runs for each in run_ids)
        return self.unfinished(dag_id)

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

    def get_dr_count(
        self, dag_id: str, states: list[str] | None = None, run_ids: list[str] | None = None
    ) -> int:
        airflow, starts = self.world.airflow, self.world.ledger.starts
        if run_ids is not None:
            starts.looked_for(self.world.process, run_ids)
        found: int = airflow.call(
            "look for" if run_ids is not None else "count",
            lambda: airflow.count(dag_id, states, run_ids),
            f"{dag_id} {run_ids or states}",
        )
        if run_ids is not None and dag_id != self.world.plan.dead_letter_dag_id:
            starts.found(self.world.process, bool(found))
        return found

    def get_dag(self, dag_id: str) -> str:
        def effect() -> str:
            if self.world.airflow.states.get(dag_id, MISSING) == MISSING:
                raise api_error(404, "not_found")
            return dag_id

        found: str = self.world.airflow.call("get", effect, dag_id)
        return found
