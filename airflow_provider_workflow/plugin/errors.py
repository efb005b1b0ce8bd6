"""What the API answers where something fails: a code, what happened, and what to do about it."""

from __future__ import annotations

from math import ceil
from typing import Any

from airflow_provider_workflow.client.call import Family
from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    ConfigurationError,
    ConflictError,
    InvalidRequestError,
    LoginRequiredError,
    NotFoundError,
    RateLimitError,
    TransportError,
    WorkflowError,
)
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.hooks.connection_test import API, TOKEN, plain_reason
from airflow_provider_workflow.hooks.diagnosis import SCOPE_FIX, fix_of_api, fix_of_token

ASSUMED_WAIT_SECONDS = 10
"""Where the service limits the rate, and does not say for how long."""
LONGEST_TITLE = 500


class PageError(Exception):
    """
    An answer that is an error.

    :param status: HTTP status.
    :param code: name of the error, for programs.
    :param title: what happened, without secrets and payloads.
    :param fix: what to do about it.
    :param retry_after: seconds after which the request may succeed; None if waiting does not help.
    """

    def __init__(
        self, status: int, code: str, title: str, fix: str, retry_after: float | None = None
    ) -> None:
        super().__init__(title)
        self.status = status
        self.code = code
        self.title = plain(title, LONGEST_TITLE)
        self.fix = plain(fix, LONGEST_TITLE)
        self.retry_after = None if retry_after is None else max(1, ceil(retry_after))

    def again(self) -> PageError:
        """The same error, to be raised: one that is raised twice keeps the frames of both."""
        return PageError(self.status, self.code, self.title, self.fix, self.retry_after)

    @property
    def body(self) -> dict[str, Any]:
        """The error as JSON."""
        return {"code": self.code, "title": self.title, "fix": self.fix}


def busy() -> PageError:
    """As many calls as allowed are in progress."""
    title = "Airflow has reached its limit of simultaneous requests to the service"
    return PageError(503, "busy", title, "wait a moment; the page repeats the request", 1)


def invalid(title: str, fix: str = "reload the page", status: int = 400) -> PageError:
    """The request is wrong."""
    return PageError(status, "invalid", title, fix)


def forbidden(title: str, fix: str) -> PageError:
    """The user must not do it, or another web site made the request."""
    return PageError(403, "forbidden", title, fix)


def no_connection(connection_id: str, title: str | None = None) -> PageError:
    """Airflow has no such connection of the type Workflow."""
    title = title or f"Airflow has no connection {connection_id!r}"
    return PageError(404, "no_connection", title, "add a connection of the type Workflow with this id")


def database_away(error: Exception) -> PageError:
    """Airflow's metadata database does not answer."""
    return PageError(503, "service_error", str(error), "try again later", ASSUMED_WAIT_SECONDS)


def unexpected() -> PageError:
    """An error that only a defect of the page explains."""
    title = "This request failed for a reason that the page does not know"
    return PageError(500, "unexpected", title, "read the log of the API server, and report the defect")


def of_service(error: WorkflowError, family: Family | None, settings: Settings | None) -> PageError:
    """
    The answer for a failed call to the service.

    :param family: the family of the call that failed; None if none was made.
    :param settings: the connection; None if it cannot be used.
    """
    if isinstance(error, ConfigurationError) or settings is None:
        return PageError(502, "wrong_credentials", str(error), "correct these fields of the connection")
    if isinstance(error, LoginRequiredError):
        return PageError(502, "wrong_credentials", f"{TOKEN}: {error.reason}", error.fix)
    asked_for_token = family is Family.TOKEN
    title = f"{TOKEN if asked_for_token else API}: {plain_reason(error)}"
    fix = _token_fix(error) if asked_for_token else fix_of_api(error, settings)
    if isinstance(error, TransportError):
        if error.timed_out:
            return PageError(504, "timeout", plain_reason(error), fix)
        return PageError(502, "unreachable", plain_reason(error), fix)
    if isinstance(error, RateLimitError):
        wait = error.retry_after or ASSUMED_WAIT_SECONDS
        return PageError(429, "rate_limited", plain_reason(error), fix, wait)
    if isinstance(error, AuthenticationError):
        return PageError(502, "wrong_credentials", title, fix)
    return _of_answer(error, plain_reason(error), fix)


def _of_answer(error: WorkflowError, title: str, fix: str) -> PageError:
    if isinstance(error, NotFoundError):
        fix = f"it was deleted, or belongs to another account: reload the list; otherwise {fix}"
        return PageError(404, "not_found", title, fix)
    if isinstance(error, ConflictError):
        return PageError(409, "wrong_state", title, "its state has changed meanwhile: reload the page")
    if isinstance(error, InvalidRequestError):
        return PageError(400, "invalid", title, fix)
    return PageError(502, "service_error", title, fix)


def _token_fix(error: WorkflowError) -> str:
    if isinstance(error, AuthenticationError) and error.code == "invalid_scope":
        return SCOPE_FIX
    return fix_of_token(error)
