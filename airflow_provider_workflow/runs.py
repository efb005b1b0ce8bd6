"""
Starting DAG runs: their ids, what may come of it, and how a task does it.

``TaskRuns`` is the only place that talks to the task's supervisor. The Task SDK has no public call that
starts several runs, so it uses the message that ``TriggerDagRunOperator`` sends, whose form has been the
same since Airflow 3.0.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, Protocol

from airflow_provider_workflow import values
from airflow_provider_workflow.run_faults import RunRefused, ServerFault, TargetError, Unholdable, fault_of
from airflow_provider_workflow.versions import airflow_release

RUN_ID_PREFIX = "workflow__"
LONGEST_RUN_ID = 250
# A run id travels unquoted in an address: anything else could end up as the id of another run.
_SAFE_ID = re.compile(r"[A-Za-z0-9_.~:+-]+")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_UNFINISHED = ["queued", "running"]
_IMPOSSIBLE_RUN_ID = "workflow .. check"
"""Refused by its two dots and by its blanks, after the DAG itself was checked, and before its params."""


class Start(Enum):
    """What came of starting a run."""

    STARTED = "started"
    EXISTING = "existing"


def run_id_of(message_id: str) -> str:
    """
    The run id that a message always gets, so that a message that comes again finds its run.

    An id with characters that a run id may not have, or that is too long, is hashed; so is one that
    looks like such a hash, or its message would find the run of the other and start none.
    """
    run_id = RUN_ID_PREFIX + message_id
    fits = _SAFE_ID.fullmatch(message_id) and ".." not in message_id and len(run_id) <= LONGEST_RUN_ID
    if fits and not _DIGEST.fullmatch(message_id):
        return run_id
    return RUN_ID_PREFIX + hashlib.sha256(message_id.encode(errors="surrogatepass")).hexdigest()


class Runs(Protocol):
    """Where runs are started and looked up: by a task, or by the command line."""

    @property
    def alongside(self) -> bool:
        """Whether another thread may call the service, which may ask Airflow for a secret, meanwhile."""

    def check_target(self, dag_id: str) -> bool:
        """
        Make sure, without starting anything, that runs of a DAG can be started.

        :return: whether that is certain; where it is not, the first run shows it.
        :raises TargetError: they cannot.
        """

    def start(self, dag_id: str, run_id: str, conf: dict[str, Any]) -> Start:
        """
        Start a run, or find that it exists. Once this returns the run is there for good.

        :raises RunRefused: Airflow does not take this run; nothing was started.
        :raises TargetError: the DAG is missing, broken or denied, or Airflow is out of reach.
        """

    def exists(self, dag_id: str, run_id: str) -> bool:
        """
        Whether a DAG has this run.

        :raises TargetError: Airflow is out of reach.
        """

    def unfinished(self, dag_id: str) -> int:
        """
        Runs of a DAG that are queued or running; 0 for an unknown DAG.

        :raises TargetError: Airflow is out of reach.
        """


def check_conf(conf: dict[str, Any]) -> None:
    """
    Make sure that a run can hold its conf, whatever Airflow says.

    :raises Unholdable: it cannot.
    """
    if (problem := values.problem(conf)) is not None:
        raise Unholdable(f"Airflow cannot hold its payload: {problem}")


@cache
def _refusals() -> tuple[type[Exception], ...]:
    """What is raised where the API server refuses; in ``dag.test()`` that is its answer as it came."""
    from airflow.sdk.exceptions import AirflowRuntimeError
    from httpx import HTTPStatusError

    return AirflowRuntimeError, HTTPStatusError


@dataclass(frozen=True)
class TaskRuns:
    """
    Runs as a task reaches them: through its supervisor (see ``Runs``).

    :param ti: the running task instance.
    """

    ti: Any

    @property
    def alongside(self) -> bool:
        """
        See ``Runs.alongside``: two threads must not mix up the supervisor's answers.

        They would before Airflow 3.2, and in ``dag.test()``.
        """
        from airflow.sdk.execution_time import task_runner

        return hasattr(task_runner.SUPERVISOR_COMMS, "_thread_lock")

    def check_target(self, dag_id: str) -> bool:
        """
        See ``Runs.check_target``.

        Before Airflow 3.3 nothing tells a broken DAG, and on 3.1 not even a missing one. In a further try
        nothing is certain: the one before may have failed of a target that refuses whatever it is given.
        """
        if airflow_release() >= (3, 3):
            try:
                self.start(dag_id, _IMPOSSIBLE_RUN_ID, {})
            except ServerFault:
                return False
            except RunRefused:
                return int(self.ti.try_number) == 1
        if hasattr(self.ti, "get_dag"):
            try:
                self.ti.get_dag(dag_id)
            except _refusals() as error:
                fault = fault_of(dag_id, error)
                if isinstance(fault, TargetError):
                    raise fault from None
        return False

    def start(self, dag_id: str, run_id: str, conf: dict[str, Any]) -> Start:
        """See ``Runs.start``."""
        check_conf(conf)
        from airflow.sdk.exceptions import ErrorType
        from airflow.sdk.execution_time import task_runner
        from airflow.sdk.execution_time.comms import ErrorResponse, TriggerDagRun

        try:
            answer = task_runner.SUPERVISOR_COMMS.send(TriggerDagRun(dag_id=dag_id, run_id=run_id, conf=conf))
        except _refusals() as error:
            raise fault_of(dag_id, error) from None
        except (ValueError, OverflowError, RecursionError) as error:
            # The value checks above state the known cases in words; nothing was sent in these either.
            raise Unholdable(f"Airflow cannot encode its payload: {type(error).__name__}") from None
        except (OSError, EOFError) as error:
            raise TargetError(
                f"The task's supervisor is out of reach: {type(error).__name__}. No message is lost."
            ) from None
        if isinstance(answer, ErrorResponse):
            if answer.error is ErrorType.DAGRUN_ALREADY_EXISTS:
                return Start.EXISTING
            raise TargetError(f"Airflow did not start a run of {dag_id!r}: {answer.error.value}")
        return Start.STARTED

    def exists(self, dag_id: str, run_id: str) -> bool:
        """See ``Runs.exists``."""
        return self._count(dag_id, run_ids=[run_id]) > 0

    def unfinished(self, dag_id: str) -> int:
        """See ``Runs.unfinished``."""
        return self._count(dag_id, states=_UNFINISHED)

    def _count(self, dag_id: str, **which: Any) -> int:
        try:
            return int(self.ti.get_dr_count(dag_id=dag_id, **which))
        except (*_refusals(), OSError, EOFError) as error:  # type: ignore[misc]
            raise TargetError(
                f"Airflow does not count the runs of {dag_id!r}: {type(error).__name__}. No message is lost."
            ) from None
