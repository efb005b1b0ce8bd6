"""Airflow: target DAGs that break and are repaired, their runs, and what a task may ask its supervisor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
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
CHECK = "workflow check"
"""Beginning of the run id with which a thorough check asks."""


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
            if what != "check" or "value_error" not in str(error.error.detail):  # type: ignore[attr-defined]
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

    def read_variable(self, name: str) -> str | None:
        """``hooks.user_tokens.read_variable``."""
        # It is read between the check of the first lease and the first run.
        self.world.process.seen.read_at = self.world.scheduler.now
        found: str | None = self.call("read", lambda: self.world.variables.get(name), name[:40])
        return found

    def write_variable(self, name: str, value: str, description: str) -> None:
        """``hooks.user_tokens.write_variable``."""
        self.call("write", lambda: self.world.variables.update({name: value}), name[:40])

    def trigger_dag_run(self, dag_id: str, run_id: str, conf: dict[str, Any], note: str | None) -> str | None:
        """``airflow_internals.trigger_dag_run``."""
        process, ledger = self.world.process, self.world.ledger
        what = "check" if run_id.startswith(CHECK) else "start"
        if what == "start" and dag_id == self.world.plan.dead_letter_dag_id:
            what = DEAD_LETTER
            ledger.letters.start_issued(process, conf)
        elif what == "start":
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
            ledger.starts.answered(process, dag_id, conf, existing=result is not None)
        return result

    def _start(self, dag_id: str, run_id: str, conf: dict[str, Any]) -> Run | None:
        state = self.states.get(dag_id, MISSING)
        if state == MISSING:
            raise api_error(404, "not_found")
        if state == IMPORT_ERROR:
            raise api_error(400, "import_errors")
        if run_id.startswith(CHECK):
            raise api_error(400, "value_error", f"The run_id '{run_id}' must not contain '..'")
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
class DagRunOfListener:
    """
    A DAG run of a listener.

    :param logical_date: None for one that an asset or the API started.
    """

    number: int
    logical_date: str | None
    state: str = "running"


@dataclass
class OldTaskInstance:
    """The running task in Airflow 3.1."""

    world: World
    dag_id: str
    try_number: int
    failed_runs: int
    run_id: str

    def get_dr_count(
        self, dag_id: str, states: list[str] | None = None, run_ids: list[str] | None = None
    ) -> int:
        airflow, process = self.world.airflow, self.world.process

        def effect() -> int:
            return self.failed_runs if dag_id == self.dag_id else airflow.count(dag_id, states, run_ids)

        if run_ids is not None:
            self.world.ledger.starts.looked_for(process, run_ids)
        found: int = airflow.call(
            "look for" if run_ids is not None else "count", effect, f"{dag_id} {run_ids or states}"
        )
        if run_ids is not None and found and dag_id != self.world.plan.dead_letter_dag_id:
            self.world.ledger.starts.found(process, dag_id)
        return found


@dataclass
class TaskInstance(OldTaskInstance):
    """The running task in Airflow 3.2 and later."""

    previous: DagRunOfListener | None = None

    def get_previous_dagrun(self) -> DagRunOfListener | None:
        previous: DagRunOfListener | None = self.world.airflow.call(
            "previous run of", lambda: self.previous, self.dag_id
        )
        return previous

    def get_dag(self, dag_id: str) -> str:
        def effect() -> str:
            if self.world.airflow.states.get(dag_id, MISSING) == MISSING:
                raise api_error(404, "not_found")
            return dag_id

        found: str = self.world.airflow.call("get", effect, dag_id)
        return found


@dataclass
class StateStore:
    """The task state store of Airflow 3.3: one for all tries of a task."""

    world: World
    on_delete: Callable[[], None]
    rows: dict[str, Any] = field(default_factory=dict)

    def get(self, key: str) -> Any:
        return self.world.airflow.call("state", lambda: self.rows.get(key), key)

    def set(self, key: str, value: Any) -> None:
        self.world.airflow.call("set state", lambda: self.rows.update({key: value}), key)

    def delete(self, key: str) -> None:
        def effect() -> None:
            self.rows.pop(key, None)
            self.on_delete()

        self.world.airflow.call("delete state", effect, key)
