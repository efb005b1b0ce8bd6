"""What errors of the service and answers of Airflow mean, by ``docs/promise.md``."""

from __future__ import annotations

from typing import Any

from airflow_provider_workflow.client.errors import (
    RateLimitError,
    ServerError,
    TransportError,
    WorkflowError,
)


def is_transient(error: WorkflowError) -> bool:
    if isinstance(error, TransportError):
        return not error.permanent
    return isinstance(error, (ServerError, RateLimitError))


def is_about_the_run(detail: dict[str, Any]) -> bool:
    """Whether an answer of Airflow rejects a run, or is an error of the server while it was requested."""
    if detail.get("exception_type") == "HTTPStatusError" or detail.get("status_code") == 503:
        return True
    inner = detail.get("detail", {}).get("detail")
    return isinstance(inner, dict) and inner.get("reason") == "value_error"


def is_no_answer(detail: dict[str, Any] | None) -> bool:
    """Whether Airflow's API server was away, or said that it cannot answer."""
    return detail is None or detail.get("status_code") == 503
