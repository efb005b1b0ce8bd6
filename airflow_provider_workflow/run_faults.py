"""What goes wrong when a run is started, and whether it is of one message or of everything."""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_workflow.values import plain

_OF_EVERYTHING = (401, 403, 408, 429)
"""What the API server says of the caller or of itself, and not of a run."""


class RunRefused(Exception):
    """Airflow refuses the run of this one message; others may be fine."""


class Unholdable(RunRefused):
    """No run can hold what this message is; Airflow itself was not asked."""


class ServerFault(RunRefused):
    """Airflow failed at this run (5xx): its own fault, or what the run holds."""


class TargetError(AirflowException):
    """No message at all can be turned into a run of this DAG now."""


def of_everything(error: Any) -> bool:
    """Whether what Airflow answered is about itself, and not about what it was given."""
    return isinstance(fault_of("", error), TargetError)


def fault_of(dag_id: str, error: Any) -> Exception:
    """
    What Airflow's answer means for a run: of one message, or of everything?

    Decided by status and reason, never by a text.

    :param error: an ``AirflowRuntimeError``; in ``dag.test()``, where no supervisor is between, the
        ``HTTPStatusError`` of the API server's own answer.
    :return: a ``RunRefused`` or a ``TargetError``.
    """
    detail = _told(error)
    status = detail.get("status_code")
    reason = _reason(detail)
    said = f"{reason or detail.get('exception_type') or 'no reason given'} (status {status}){_why(detail)}"
    if status == 404:
        return TargetError(
            f"The DAG {dag_id!r} was not found. Deploy it, or correct trigger_dag_id; no message is lost."
        )
    if status in _OF_EVERYTHING or reason in ("import_errors", "denied_run_type", "not_partitioned"):
        return TargetError(f"Airflow does not start runs of {dag_id!r}: {said}. No message is lost.")
    if isinstance(status, int) and 400 <= status < 500:
        return RunRefused(said)
    if isinstance(status, int) or detail.get("exception_type") == "HTTPStatusError":
        # Before Airflow 3.3 a refused run is a bare 500 whose text is no JSON, so that no status is told.
        return ServerFault(said)
    if detail.get("exception_type") == "PydanticSerializationError":
        return Unholdable("Airflow cannot encode its payload")
    return TargetError(f"Airflow's API server gives no usable answer: {said}. No message is lost.")


def _told(error: Any) -> dict[str, Any]:
    """What a supervisor tells its task of the API server's answer."""
    if not hasattr(error, "response"):
        return error.error.detail if isinstance(error.error.detail, dict) else {}
    try:
        return {"status_code": error.response.status_code, "detail": error.response.json()}
    except ValueError:
        return {"exception_type": "HTTPStatusError"}


def _reason(detail: dict[str, Any]) -> str | None:
    reason = _inner(detail).get("reason")
    return reason if isinstance(reason, str) else None


def _why(detail: dict[str, Any]) -> str:
    """Airflow's own sentence, for people; behind it there may be the payload."""
    text = _inner(detail).get("message")
    sentence = text.strip().partition("\n")[0] if isinstance(text, str) else ""
    return f": {plain(sentence)}" if sentence else ""


def _inner(detail: dict[str, Any]) -> dict[str, Any]:
    """What the API server itself said."""
    inner = detail.get("detail")
    inner = inner.get("detail") if isinstance(inner, dict) else None
    return inner if isinstance(inner, dict) else {}
