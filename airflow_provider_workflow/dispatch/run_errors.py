"""What Airflow answers about a run: whether it rejects this one, or the runs of the target."""

from __future__ import annotations

import re
from typing import Any

from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_workflow.text import escaped

_ABOUT_ALL_RUNS = (401, 403, 408, 429)
"""Statuses that are about the caller or the API server, not about a run."""
_ABOUT_SIZE = re.compile("too_large|too_long|size")
"""In a reason of Airflow, or of a gateway in front of it, that rejects a conf for its size."""
_STATUS = re.compile(r"(?:Client|Server) error '([45]\d\d) ")
_ABOUT_A_PARAM = "Invalid input for param "
_MAX_NAME_LENGTH = 100


class RunRejected(Exception):
    """Airflow rejected the run of one message; it may accept the runs of others."""


class MessageFault(RunRejected):
    """No run of this message can be started, whatever its target: its conf is too large, say."""


class ServerFault(RunRejected):
    """Airflow failed to start the run (5xx): by its own fault, or because of the conf. The run may exist."""


class TargetError(AirflowException):
    """No run of the DAG can be started at present, whatever the message."""


def error_of(dag_id: str, error: Any, argument: str = "trigger_dag_id") -> Exception:
    """
    Whether Airflow's answer is about the run of one message, or about all runs.

    Decided by status and reason. Of an answer that is not JSON the supervisor passes on only a sentence with
    the status.

    :param argument: that names the DAG: ``trigger_dag_id`` or ``dead_letter_dag_id``.
    :param error: an ``AirflowRuntimeError``; in ``dag.test()``, where no supervisor is between, the
        ``HTTPStatusError`` of the API server's own answer.
    :return: a ``RunRejected`` or a ``TargetError``.
    """
    detail = _detail(error)
    status = detail.get("status_code")
    if status is None and (sentence := _STATUS.match(str(detail.get("message")))):
        status = int(sentence[1])
    reason = _inner(detail).get("reason")
    reason = escaped(reason, _MAX_NAME_LENGTH) if isinstance(reason, str) else None
    answer = f"{reason or detail.get('exception_type') or 'no reason given'} (status {status})"
    answer += param_of(_inner(detail).get("message"))
    if status == 404:
        return TargetError(
            f"The DAG {dag_id!r} was not found. Deploy it, or correct {argument}; no message is lost."
        )
    if status in _ABOUT_ALL_RUNS or reason in ("import_errors", "denied_run_type", "not_partitioned"):
        text = f"Airflow does not start runs of {dag_id!r}: {answer}."
        return TargetError(f"{text} No message is lost.")
    if isinstance(status, int) and 400 <= status < 500:
        is_of_size = status == 413 or _ABOUT_SIZE.search(reason or "")
        return MessageFault(answer) if is_of_size else RunRejected(answer)
    if isinstance(status, int) or detail.get("exception_type") == "HTTPStatusError":
        # Before Airflow 3.3 a rejected run is a 500 without JSON, and the supervisor passes on no status.
        return ServerFault(answer)
    if detail.get("exception_type") == "PydanticSerializationError":
        return MessageFault("Airflow cannot encode its payload")
    return TargetError(f"Airflow's API server gives no usable answer: {answer}. No message is lost.")


def param_of(sentence: Any) -> str:
    """
    The param that Airflow names in a sentence about a run, as ``": param <name>"``; empty if it names none.

    Nothing else of the sentence is shown: Airflow quotes the rejected value, which may be the whole message.
    """
    if not isinstance(sentence, str) or not sentence.startswith(_ABOUT_A_PARAM):
        return ""
    name = sentence.removeprefix(_ABOUT_A_PARAM).partition(":")[0]
    return f": param {escaped(name, _MAX_NAME_LENGTH)}"


def _detail(error: Any) -> dict[str, Any]:
    """The part of the API server's answer that the supervisor passes on."""
    if not hasattr(error, "response"):
        return error.error.detail if isinstance(error.error.detail, dict) else {}
    try:
        return {"status_code": error.response.status_code, "detail": error.response.json()}
    except ValueError:
        return {"status_code": error.response.status_code}


def _inner(detail: dict[str, Any]) -> dict[str, Any]:
    """The error object of the API server."""
    inner = detail.get("detail")
    inner = inner.get("detail") if isinstance(inner, dict) else None
    return inner if isinstance(inner, dict) else {}
