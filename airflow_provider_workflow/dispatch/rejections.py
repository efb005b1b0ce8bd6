"""Whose fault it is when Airflow rejects a run: of one message, of the target DAG, or of Airflow."""

from __future__ import annotations

import re
from typing import Any

from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_workflow.client.wire import plain

_ABOUT_ALL_RUNS = (401, 403, 408, 429)
"""Statuses that are about the caller or the API server, not about a run."""
_LONGEST_REASON = 300
_PARAM = re.compile(r"Invalid input for param (?P<name>[^:\s]{1,100}): ")
_WITHOUT_VALUES = re.compile(r"Timetable class |The run_id |Dag with dag_id|DAG |Dag ")
"""Beginnings of Airflow's sentences that quote nothing but names and ids."""
_TYPE = re.compile(r"is not (of type '\w+'(, '\w+')*|a '[\w-]+')$")
_RULES = [
    (
        re.compile(r"^Invalid input for param [^:\s]+: No value passed"),
        "no value passed, and it has no default",
    ),
    (re.compile(r"is not one of \[.*\]$"), "it is not one of the values that the param allows"),
    (re.compile(r"does not match '.*'$"), "it does not match the pattern of the param"),
    (re.compile(r"is too long$"), "it is too long"),
    (re.compile(r"(is too short|should be non-empty)$"), "it is too short"),
    (
        re.compile(r"is (less|greater) than (or equal to )?the (minimum|maximum) of \S+$"),
        "it is out of range",
    ),
    (re.compile(r"is a required property$"), "it lacks a required property"),
]


class RunRejected(Exception):
    """
    Airflow rejected the run of one message; it may accept the runs of others.

    :param airflow_says: Airflow's own sentence. It may quote the message: compare it, never show it.
    """

    def __init__(self, reason: str, airflow_says: str = "") -> None:
        super().__init__(reason)
        self.airflow_says = airflow_says


class UnencodableConf(RunRejected):
    """The conf of the run cannot be encoded; no request was sent to Airflow."""


class ServerFault(RunRejected):
    """Airflow failed to start the run (5xx): by its own fault, or because of the conf."""


class TargetError(AirflowException):
    """No run of the DAG can be started at present, whatever the message."""


def error_of(dag_id: str, error: Any) -> Exception:
    """
    Whether Airflow's answer is about the run of one message, or about all runs.

    Decided by status and reason, never by the wording.

    :param error: an ``AirflowRuntimeError``; in ``dag.test()``, where no supervisor is between, the
        ``HTTPStatusError`` of the API server's own answer.
    :return: a ``RunRejected`` or a ``TargetError``.
    """
    detail = _detail(error)
    status = detail.get("status_code")
    reason = _reason(detail)
    said = f"{reason or detail.get('exception_type') or 'no reason given'} (status {status}){_why(detail)}"
    if status == 404:
        return TargetError(
            f"The DAG {dag_id!r} was not found. Deploy it, or correct trigger_dag_id; no message is lost."
        )
    if status in _ABOUT_ALL_RUNS or reason in ("import_errors", "denied_run_type", "not_partitioned"):
        return TargetError(f"Airflow does not start runs of {dag_id!r}: {said}. No message is lost.")
    if isinstance(status, int) and 400 <= status < 500:
        return RunRejected(said, str(_inner(detail).get("message")))
    if isinstance(status, int) or detail.get("exception_type") == "HTTPStatusError":
        # Before Airflow 3.3 a rejected run is a 500 without JSON, and the supervisor passes on no status.
        return ServerFault(said)
    if detail.get("exception_type") == "PydanticSerializationError":
        return UnencodableConf("Airflow cannot encode its payload")
    return TargetError(f"Airflow's API server gives no usable answer: {said}. No message is lost.")


def _detail(error: Any) -> dict[str, Any]:
    """The part of the API server's answer that the supervisor passes on."""
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
    text = _inner(detail).get("message")
    return f": {reason_without_values(text)}" if isinstance(text, str) and text.strip() else ""


def reason_without_values(text: str) -> str:
    """
    Airflow's sentence about a run that it rejects, without any value of the run's ``conf``.

    Airflow quotes what it rejects, which may be the whole message. Kept are sentences without a value, the
    name of a param, and the rule that its value breaks.
    """
    sentence = plain(text.strip().partition("\n")[0], _LONGEST_REASON)
    if (found := _PARAM.match(sentence)) is not None:
        return f"Invalid input for param {found['name']}: {_broken_rule(text)}"
    if _WITHOUT_VALUES.match(sentence):
        return sentence
    return re.split(r"[\[{(<\"'0-9]", sentence)[0].strip() or "no reason that can be shown"


def _broken_rule(text: str) -> str:
    """The rule that a sentence of JSON schema names after the value, without the value."""
    first = text.strip().partition("\n")[0]
    return next(
        (rule for pattern, rule in _RULES if pattern.search(first)), _typed(first) or "it is not valid"
    )


def _typed(sentence: str) -> str | None:
    found = _TYPE.search(sentence)
    return f"it {found[0]}" if found else None


def _inner(detail: dict[str, Any]) -> dict[str, Any]:
    """The error object of the API server."""
    inner = detail.get("detail")
    inner = inner.get("detail") if isinstance(inner, dict) else None
    return inner if isinstance(inner, dict) else {}
