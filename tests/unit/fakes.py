"""Small fakes of what Airflow gives a running task. They behave as Airflow 3.3 does."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock
from types import SimpleNamespace
from typing import Any

import msgspec
from airflow.sdk.api import client
from airflow.sdk.api.client import ServerResponseError
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse, GetDagRun, OKResponse, TriggerDagRun

from airflow_provider_workflow.airflow_internals import NOTE_PREFIX, airflow_release
from airflow_provider_workflow.dispatch.runs import RUN_ID_PREFIX

Fault = Exception | ErrorResponse


def api_error(
    status: int, reason: str | None = None, message: str = "made up\n\nOn instance:\n    'a payload'"
) -> AirflowRuntimeError:
    """The error that a task gets when the API server answers with an error in JSON."""
    reasons = {"reason": reason, "message": message}
    inner: Any = {"detail": reasons if reason else "made up"}
    return _runtime_error({"status_code": status, "message": "made up", "detail": inner})


def lost(exception_type: str, message: str = "made up") -> AirflowRuntimeError:
    """The error that a task gets when its supervisor got no answer, or one that is no JSON."""
    return _runtime_error({"status_code": None, "message": message, "exception_type": exception_type})


def unwrapped(status: int, reason: str | None = None) -> ServerResponseError:
    """The error that a task gets in ``dag.test()``, where no supervisor translates it."""
    detail: Any = {"reason": reason, "message": "made up"} if reason else "made up"
    httpx = getattr(client, "httpx2", None) or client.httpx  # type: ignore[attr-defined]
    request = httpx.Request("POST", "http://in-process/")
    error = ServerResponseError.from_response(
        httpx.Response(status, json={"detail": detail}, request=request)
    )
    assert error is not None
    return error


def _runtime_error(detail: dict[str, Any] | None) -> AirflowRuntimeError:
    return AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail=detail))


@dataclass
class Supervisor:
    """
    The supervisor of a task: it starts DAG runs, or answers with faults.

    :param dags: the DAGs that it knows.
    :param runs: conf of each run, by DAG and run id.
    :param users: the user behind a run: of the run itself, or of the run of the task that started it.
    :param by_tasks: runs in ``users`` that a task started.
    :param user_of_tasks: the user behind the tasks that start runs; None if no user started theirs.
    :param requests: all requests for runs, in their order.
    :param faults: called in turn with each request, before anything else; the first answer counts.
    :param _thread_lock: the same lock as in Airflow; it keeps the answers of two threads apart.
    """

    dags: set[str] = field(default_factory=lambda: {"handle"})
    runs: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    users: dict[tuple[str, str], str] = field(default_factory=dict)
    by_tasks: set[tuple[str, str]] = field(default_factory=set)
    user_of_tasks: str | None = None
    notes: dict[tuple[str, str], str | None] = field(default_factory=dict)
    requests: list[TriggerDagRun] = field(default_factory=list)
    faults: list[Callable[[TriggerDagRun], Fault | None]] = field(default_factory=list)
    on_start: Callable[[], None] = lambda: None
    _thread_lock: Any = field(default_factory=Lock)

    def send(self, message: Any) -> Any:
        if isinstance(message, GetDagRun):
            key = message.dag_id, message.run_id
            by_hand = key in self.users and key not in self.by_tasks
            is_manual = by_hand or airflow_release() < (3, 3)
            return SimpleNamespace(
                conf=self.runs[key],
                triggering_user_name=self.users.get(key),
                run_type="manual" if is_manual else "operator_triggered",
                note=self.notes.get(key, NOTE_PREFIX if key in self.by_tasks else None),
            )
        if not isinstance(message, TriggerDagRun):
            return None  # a request to mask a secret
        msgspec.msgpack.encode(message.conf)
        self.requests.append(message)
        outcome = next((answer for fault in self.faults if (answer := fault(message))), None)
        if outcome is None:
            outcome = self._start(message)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _start(self, message: TriggerDagRun) -> Any:
        if message.dag_id not in self.dags:
            return api_error(404, "not_found")
        if ".." in message.run_id:
            text = f"The run_id '{message.run_id}' must not contain '..' to prevent path traversal"
            return api_error(400, "value_error", text)
        key = (message.dag_id, message.run_id)
        if key in self.runs:
            return ErrorResponse(error=ErrorType.DAGRUN_ALREADY_EXISTS)
        self.runs[key] = message.conf or {}
        self.notes[key] = message.note
        if self.user_of_tasks is not None:
            self.users[key] = self.user_of_tasks
            self.by_tasks.add(key)
        self.on_start()
        return OKResponse(ok=True)

    def refuse(self, message_id: str, *errors: Fault) -> None:
        """
        Answer requests for runs of messages whose id begins with ``message_id`` with these errors, one after
        the other. The last error is repeated.
        """
        remaining_errors = list(errors)

        def fault(message: TriggerDagRun) -> Fault | None:
            if not message.run_id.startswith(RUN_ID_PREFIX + message_id):
                return None
            return remaining_errors.pop(0) if len(remaining_errors) > 1 else remaining_errors[0]

        self.faults.append(fault)

    def fail(self, error: Fault) -> None:
        """Answer every request, also those of checks, with this error."""
        self.faults.append(lambda message: error)

    @property
    def started(self) -> list[str]:
        return [conf["message"]["id"] for conf in self.runs.values() if "message" in conf]


@dataclass
class TaskInstance:
    """
    A running task.

    :param unfinished: returns the number of unfinished runs of a DAG.
    :param counts: the arguments of each request for a number of runs: DAG and states.
    :param on_look: called when it asks whether runs exist.
    :param previous: the DAG run before its own.
    :param xcoms: the XComs of its own run and of others, by the id of the run, the key and the map index.
    """

    unfinished: Callable[[str], int] = lambda dag_id: 0
    dag_id: str = "listener"
    try_number: int = 1
    start_date: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    supervisor: Supervisor | None = None
    on_look: Callable[[], object] = lambda: None
    dag_fault: AirflowRuntimeError | None = None
    dags_asked: list[str] = field(default_factory=list)
    counts: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    previous: Any = None
    xcoms: dict[tuple[str, str, int], Any] = field(default_factory=dict)
    run_id: str = "run_of_this_task"
    map_index: int = -1

    def get_previous_dagrun(self, state: str | None = None) -> Any:
        is_asked_for = self.previous is not None and state in (None, self.previous.state)
        return self.previous if is_asked_for else None

    def xcom_push(self, key: str, value: Any) -> None:
        # The newest one is the last.
        self.xcoms.pop((self.run_id, key, self.map_index), None)
        self.xcoms[self.run_id, key, self.map_index] = json.loads(json.dumps(value))

    def xcom_pull(self, *, key: str, include_prior_dates: bool, map_indexes: int) -> Any:
        values = (
            value
            for (run_id, name, map_index), value in reversed(self.xcoms.items())
            if (name, map_index) == (key, map_indexes) and (include_prior_dates or run_id == self.run_id)
        )
        return next(values, None)

    def get_dr_count(
        self, dag_id: str, states: list[str] | None = None, run_ids: list[str] | None = None
    ) -> int:
        if run_ids is not None:
            self.on_look()
            known_runs = self.supervisor.runs if self.supervisor is not None else ()
            return sum((dag_id, run_id) in known_runs for run_id in run_ids)
        self.counts.append((dag_id, tuple(states or ())))
        return self.unfinished(dag_id)

    def get_first_reschedule_date(self, context: Any) -> None:
        return None

    def get_dag(self, dag_id: str) -> str:
        self.dags_asked.append(dag_id)
        if self.dag_fault is not None:
            raise self.dag_fault
        if self.supervisor is not None and dag_id not in self.supervisor.dags:
            raise api_error(404, "not_found")
        return dag_id


@dataclass
class StateStore:
    """
    The task state store of Airflow 3.3.

    :param fault: an error that is raised instead of storing.
    :param forgets: whether it stores nothing, without an error.
    """

    rows: dict[str, Any] = field(default_factory=dict)
    fault: Exception | None = None
    forgets: bool = False
    after_set: Callable[[], None] = lambda: None

    def get(self, key: str, default: Any = None) -> Any:
        return self.rows.get(key, default)

    def delete(self, key: str) -> None:
        self.rows.pop(key, None)

    def set(self, key: str, value: Any) -> None:
        if self.fault is not None:
            raise self.fault
        if not self.forgets:
            self.rows[key] = value
        self.after_set()
