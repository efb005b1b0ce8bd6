"""
DAG runs: their ids, and how a task starts, finds and counts them.

``TaskRuns`` is the only place that talks to the task's supervisor. The Task SDK has no public call that
starts several runs, so it uses the message that ``TriggerDagRunOperator`` sends, whose form has been the
same since Airflow 3.0.
"""

from __future__ import annotations

import hashlib
import logging
import re
from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property, partial
from typing import Any, Protocol

from airflow.providers.common.compat.sdk import conf

from airflow_provider_workflow import tracing
from airflow_provider_workflow.airflow_internals import (
    airflow_release,
    http_status_error,
    keeps_answers_apart,
    trigger_dag_run,
)
from airflow_provider_workflow.config import traces
from airflow_provider_workflow.dispatch import payloads
from airflow_provider_workflow.dispatch.rejections import RunRejected, TargetError, UnencodableConf, error_of

log = logging.getLogger(__name__)

RUN_ID_PREFIX = "workflow__"
LONGEST_RUN_ID = 250
# A run id travels unquoted in an address: anything else could end up as the id of another run.
_SAFE_ID = re.compile(r"[A-Za-z0-9_.~:+-]+")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MARKED = re.compile(r".*__[0-9a-f]{8}", re.DOTALL)
_UNFINISHED = ["queued", "running"]
_CHECK_RUN_ID = "workflow check .. of the target DAG, which starts nothing " + "x" * LONGEST_RUN_ID
"""Airflow rejects it for its two dots, its blanks and its length: after the checks of the DAG, and before
those of its params."""


class Start(Enum):
    """The outcome of starting a run."""

    STARTED = "started"
    EXISTING = "existing"


def run_id_of(message_id: str, inbox_id: str, prefix: str = RUN_ID_PREFIX) -> str:
    """
    The run id of a message: always the same, so that a redelivered message finds its run.

    It contains a hash of the inbox id, as message ids may be unique within an inbox only. A message id that
    is too long, or has characters that a run id must not have, is hashed together with the inbox id.
    """
    inbox = hashlib.sha256(_bytes(inbox_id))
    run_id = f"{prefix}{message_id}__{inbox.hexdigest()[:8]}"
    if _SAFE_ID.fullmatch(message_id) and ".." not in message_id and len(run_id) <= LONGEST_RUN_ID:
        return run_id
    inbox.update(b"\0" + _bytes(message_id))
    return prefix + inbox.hexdigest()


def former_run_id_of(message_id: str) -> str | None:
    """
    The run id of a message in version 0.1, which a message that was leased before an upgrade may have.

    None if it could be the present run id of another message.
    """
    if _MARKED.fullmatch(message_id):
        return None
    run_id = RUN_ID_PREFIX + message_id
    fits = _SAFE_ID.fullmatch(message_id) and ".." not in message_id and len(run_id) <= LONGEST_RUN_ID
    if fits and not _DIGEST.fullmatch(message_id):
        return run_id
    return RUN_ID_PREFIX + hashlib.sha256(_bytes(message_id)).hexdigest()


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


class Runs(Protocol):
    """Starts, finds and counts runs: from a task, or from the command line."""

    @property
    def alongside(self) -> bool:
        """Whether a second thread may call the service, which may read a secret from Airflow, meanwhile."""

    def check_target(self, dag_id: str, *, thorough: bool = False) -> None:
        """
        Check, without starting a run, whether runs of a DAG can be started.

        :param thorough: make all checks that are possible, although Airflow logs an error line for it.
        :raises TargetError: they cannot be started.
        """

    def start(self, dag_id: str, run_id: str, conf: dict[str, Any], note: str | None = None) -> Start:
        """
        Start a run, or find that it exists. When this returns, the run is stored.

        :param note: shown on the page of the run.
        :raises RunRejected: Airflow rejects this run; nothing was started.
        :raises TargetError: the DAG is missing, broken or denied, or Airflow does not answer.
        """

    def exists(self, dag_id: str, run_id: str) -> bool:
        """
        Whether a DAG has this run.

        :raises TargetError: Airflow does not answer.
        """

    def unfinished(self, dag_id: str) -> int:
        """
        Runs of a DAG that are queued or running; 0 for an unknown DAG.

        :raises TargetError: Airflow does not answer.
        """


def check_conf(conf: dict[str, Any]) -> None:
    """
    Make sure that Airflow can encode a conf.

    :raises UnencodableConf: it cannot. The error names the path of the value, never the value.
    """
    if (part := payloads.unstorable(conf, "conf", payloads.DEEPEST_CONF)) is not None:
        raise UnencodableConf(f"Airflow cannot store it: {part}")


@cache
def _rejections() -> tuple[type[Exception], ...]:
    """The exceptions for a rejection by the API server; in ``dag.test()`` there is no supervisor between."""
    from airflow.sdk.exceptions import AirflowRuntimeError

    return AirflowRuntimeError, http_status_error()


@dataclass(frozen=True)
class TaskRuns:
    """
    Runs by way of the supervisor of a task (see ``Runs``).

    :param ti: the running task instance.
    """

    ti: Any

    @property
    def alongside(self) -> bool:
        """
        See ``Runs.alongside``.

        In ``dag.test()`` two threads would mix up the answers of the supervisor.
        """
        return keeps_answers_apart()

    def check_target(self, dag_id: str, *, thorough: bool = False) -> None:
        """
        See ``Runs.check_target``.

        Airflow knows whether the DAG exists; a thorough check on 3.3 and later also finds import errors, a
        DAG that is stale or denies runs, and a timetable that is not registered. No check finds params that
        reject every conf: the first run does.
        """
        try:
            self.ti.get_dag(dag_id)
        except (*_rejections(), OSError, EOFError) as error:  # type: ignore[misc]
            raise _target_error(dag_id, error) from None
        if thorough and airflow_release() >= (3, 3) and _is_rejected_anywhere(_CHECK_RUN_ID):
            self._try_impossible_run(dag_id)

    def _try_impossible_run(self, dag_id: str) -> None:
        try:
            self._start(dag_id, _CHECK_RUN_ID, {})
        except RunRejected as error:
            # An answer about the run id means that the DAG passed all checks before it.
            if _CHECK_RUN_ID[:20] not in error.airflow_says:
                raise TargetError(
                    f"Airflow does not start runs of {dag_id!r}: {error}. Correct the DAG; no message is"
                    f" lost."
                ) from None

    def start(self, dag_id: str, run_id: str, conf: dict[str, Any], note: str | None = None) -> Start:
        """See ``Runs.start``."""
        conf = {**conf, **self._lineage}
        check_conf(conf)
        start = partial(self._start, dag_id, run_id, conf, note)
        return tracing.start_run(start, dag_id, run_id, conf) if traces() else start()

    def _start(self, dag_id: str, run_id: str, conf: dict[str, Any], note: str | None = None) -> Start:
        from pydantic import ValidationError

        try:
            refusal = trigger_dag_run(dag_id, run_id, conf, note)
        except _rejections() as error:
            raise error_of(dag_id, error) from None
        except ValidationError as error:
            # Of the answer, which is decoded here: the run may exist.
            raise TargetError(
                f"Airflow's answer about a run of {dag_id!r} cannot be read: {type(error).__name__}."
                " No message is lost."
            ) from None
        except (ValueError, OverflowError, RecursionError) as error:
            # check_conf reports the known cases; nothing was sent in the others either.
            raise UnencodableConf(f"Airflow cannot encode its payload: {type(error).__name__}") from None
        except (OSError, EOFError) as error:
            raise _target_error(dag_id, error) from None
        if refusal not in (None, "DAGRUN_ALREADY_EXISTS"):
            raise TargetError(f"Airflow did not start a run of {dag_id!r}: {refusal}")
        return Start.STARTED if refusal is None else Start.EXISTING

    @cached_property
    def _lineage(self) -> dict[str, Any]:
        return lineage_of(self.ti)

    def exists(self, dag_id: str, run_id: str) -> bool:
        """See ``Runs.exists``."""
        return self._count(dag_id, run_ids=[run_id]) > 0

    def unfinished(self, dag_id: str) -> int:
        """See ``Runs.unfinished``."""
        return self._count(dag_id, states=_UNFINISHED)

    def _count(self, dag_id: str, **which: Any) -> int:
        try:
            return int(self.ti.get_dr_count(dag_id=dag_id, **which))
        except (*_rejections(), OSError, EOFError) as error:  # type: ignore[misc]
            raise TargetError(
                f"Airflow does not count the runs of {dag_id!r}: {type(error).__name__}. No message is lost."
            ) from None


def lineage_of(ti: Any) -> dict[str, Any]:
    """
    The entry in the conf of a run by which OpenLineage names its parent, the task that starts it.

    Empty where the OpenLineage provider is not installed or disabled, or cannot tell.
    """
    try:
        from airflow.providers.openlineage.conf import is_disabled
        from airflow.providers.openlineage.plugins import macros

        if is_disabled():
            return {}
        parent = {
            "parentRunId": macros.lineage_run_id(ti),
            "parentJobName": macros.lineage_job_name(ti),
            "parentJobNamespace": macros.lineage_job_namespace(),
            "rootParentRunId": macros.lineage_root_run_id(ti),
            "rootParentJobName": macros.lineage_root_job_name(ti),
            "rootParentJobNamespace": macros.lineage_root_job_namespace(ti),
        }
    except ImportError:
        return {}
    except Exception as error:
        # Lineage never holds up messages.
        log.debug("OpenLineage does not name the task that starts runs: %s", type(error).__name__)
        return {}
    return {"openlineage": parent}


def origin_of(context: Any) -> str:
    """The DAG and run of a task, for the notes of the runs that it starts."""
    ti = context["ti"]
    return f"the run {ti.run_id} of {ti.dag_id}" if hasattr(ti, "run_id") else ""


def _target_error(dag_id: str, error: Exception) -> TargetError:
    """The error of a call that was not about a message."""
    if isinstance(error, (OSError, EOFError)):
        return TargetError(
            f"The task's supervisor does not answer: {type(error).__name__}. No message is lost."
        )
    fault = error_of(dag_id, error)
    if isinstance(fault, TargetError):
        return fault
    return TargetError(f"Airflow cannot check the DAG {dag_id!r}: {fault}. No message is lost.")


def _is_rejected_anywhere(run_id: str) -> bool:
    """Whether Airflow rejects this run id in the present configuration, as it does by default."""
    pattern = str(conf.get("scheduler", "allowed_run_id_pattern", fallback="")).strip()
    dots = conf.getboolean("core", "allow_double_dot_in_ids", fallback=False)
    return not dots or not (pattern and re.match(pattern, run_id))
