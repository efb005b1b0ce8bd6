"""What errors of the service and answers of Airflow mean, by ``docs/promise.md``."""

from __future__ import annotations

from typing import Any


def is_server_fault(detail: dict[str, Any]) -> bool:
    """Whether an answer is an error of the server while a run was requested, which may be stored."""
    return detail.get("exception_type") == "HTTPStatusError" or detail.get("status_code") == 503


def is_about_the_run(detail: dict[str, Any]) -> bool:
    """Whether an answer of Airflow rejects a run."""
    inner = detail.get("detail", {}).get("detail")
    return isinstance(inner, dict) and inner.get("reason") == "value_error"


def is_no_answer(detail: dict[str, Any] | None) -> bool:
    """Whether Airflow's API server was away, or said that it cannot answer."""
    return detail is None or detail.get("status_code") == 503
