"""
The exceptions of the client.

::

    WorkflowError
    ├── ConfigurationError           fields of the connection are missing or invalid (all are named)
    ├── TransportError               no usable answer; ``sent``: whether the service may have the request
    │   └── TokenStoreError          the store of user tokens is unreachable
    └── WorkflowAPIError             the service answered with an error
        ├── AuthenticationError      401, 403, an expired token, a 4xx of the token endpoint
        │   └── LoginRequiredError   the user's tokens are no longer valid: log in again
        ├── InvalidRequestError      any other 4xx: the request is invalid
        │   └── GuessRejectedError   the description matches no workflow
        ├── NotFoundError            404
        ├── ConflictError            409
        │   └── InboxPausedError     409 of a lease: paused, and no messages left to lease
        ├── LeaseExpiredError        400 ``lease_expired``: the messages are redelivered
        ├── RateLimitError           429, or the required wait exceeds the maximum
        └── ServerError              5xx, 408, 425

Messages name the call, the status, the service's explanation and the field that it names; they never contain
a token, a secret or a request body. The whole body of the service's answer is in ``answer``.
"""

from __future__ import annotations

import shlex
from typing import Any, NamedTuple

MAX_WAIT_SECONDS = 3600.0
"""
Maximum wait at the service's request, as its limits are per hour (docs/service.md 15); then a call is sent
again. The service may request more by mistake: a date in 2099, milliseconds instead of seconds, an epoch.
"""


class WorkflowError(Exception):
    """
    Base class of the errors of calls to the service.

    ``fix`` says what to do; it is empty if that is unknown. ``may_repeat``: whether to make another attempt
    of the call now; None before that is known, and False after all attempts, as for a call that depends on
    it. ``transient``: whether the same call may succeed later.
    """

    fix = ""
    may_repeat: bool | None = None
    transient = False

    def __reduce__(self) -> tuple[Any, ...]:
        # By default exceptions are unpickled from ``args``, which do not include the keyword arguments.
        return _again, (type(self), self.args, vars(self))


def _again(kind: type[WorkflowError], args: tuple[Any, ...], state: dict[str, Any]) -> WorkflowError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class ConfigurationError(WorkflowError, ValueError):
    """
    Fields of the connection are missing or invalid.

    :param problems: one sentence per field, with the name of the field and the fix.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__("The workflow connection cannot be used: " + "; ".join(problems) + ".")
        self.problems = problems


class TransportError(WorkflowError):
    """
    No usable answer: the connection was refused, reset or timed out, or the body is not JSON.

    :param sent: whether the service may have received the request. A call that is not repeatable is
        only sent again if this is False.
    :param permanent: whether a retry cannot succeed (the certificate does not verify).
    :param timed_out: whether the time limit of the attempt ended it.
    """

    def __init__(
        self,
        text: str,
        *,
        sent: bool,
        permanent: bool = False,
        timed_out: bool = False,
    ) -> None:
        super().__init__(text)
        self.sent = sent
        self.permanent = permanent
        self.timed_out = timed_out
        self.transient = not permanent


class TokenStoreError(TransportError):
    """
    User tokens could not be read from their store or written to it; nothing was sent to the service.

    Airflow, not the service, did not answer.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text, sent=False)


class RateLimit(NamedTuple):
    """
    What the rate-limit headers of an answer say (docs/service.md 15).

    A field is None if its header is missing or is not a number.

    :param limit: maximum number of requests per hour.
    :param remaining: requests left in the current window.
    :param reset: when the window resets, in epoch seconds, UTC.
    :param retry_after: seconds until the next call is allowed, as the service sent them, or 0 for a date that
        is over.
    """

    limit: int | None = None
    remaining: int | None = None
    reset: float | None = None
    retry_after: float | None = None


class WorkflowAPIError(WorkflowError):
    """
    The service answered with an error (docs/service.md 11).

    ``answer`` may quote what was sent: do not write it to a log, an XCom or a note.

    :param status: HTTP status code, or 0 if the call was not sent.
    :param code: ``errors[0].code``, or None.
    :param detail: ``errors[0].detail``, or another description; "" without JSON.
    :param retry_after: seconds to wait before the next attempt, as the service requested them, or None.
    :param answer: the body of the answer, decoded, with ``***`` in place of secrets: all ``errors`` with
        their ``title``, ``source`` and ``meta``, or the ``messages`` of a guess. A string if it is not JSON,
        is nested deeper than 100 levels, or was cut at 64 kB; None if there is none.
    :param rate_limit: what the headers of the answer say about the rate limit; None without them.
    """

    def __init__(
        self,
        text: str,
        *,
        status: int,
        code: str | None = None,
        detail: str = "",
        retry_after: float | None = None,
        answer: Any = None,
        rate_limit: RateLimit | None = None,
    ) -> None:
        super().__init__(text)
        self.status = status
        self.code = code
        self.detail = detail
        self.retry_after = retry_after
        self.answer = answer
        self.rate_limit = rate_limit


class AuthenticationError(WorkflowAPIError):
    """
    The token, the client ID or the client secret was rejected (401, 403, 400 ``unauthenticated``).

    :param text: what the service answered; also available as ``reason``.
    """

    def __init__(self, text: str, **more: Any) -> None:
        super().__init__(text, **more)
        self.reason = text


class LoginRequiredError(AuthenticationError):
    """
    A connection's user tokens are missing or no longer valid (docs/service.md 14.3).

    :param connection_id: id of the Airflow connection.
    :param reason: why the tokens cannot be used.
    """

    def __init__(self, connection_id: str, reason: str) -> None:
        self.fix = f"run: airflow-workflow login --conn-id {shlex.quote(connection_id)}"
        super().__init__(
            f"The user tokens of the connection {connection_id!r} cannot be used: {reason}."
            f" Log in again where Airflow runs; {self.fix}",
            status=0,
        )
        self.reason = reason


class InvalidRequestError(WorkflowAPIError):
    """The service rejects the request as invalid (4xx); a retry cannot succeed."""


class GuessRejectedError(InvalidRequestError):
    """The description matches no workflow (docs/service.md 13.2); ``detail`` has the reasons."""


class NotFoundError(WorkflowAPIError):
    """The resource does not exist or was deleted (404)."""


class ConflictError(WorkflowAPIError):
    """The resource exists with other values, or its state does not allow the call (409)."""


class InboxPausedError(ConflictError):
    """The inbox is paused, for ``paused_reason``, and has no messages to lease (409 of a lease)."""

    paused_reason = "unknown"


class LeaseExpiredError(WorkflowAPIError):
    """The lease expired before the call (400 ``lease_expired``); its messages are redelivered."""


class RateLimitError(WorkflowAPIError):
    """Too many requests (429); ``retry_after``: seconds until the next call is allowed."""

    transient = True


class ServerError(WorkflowAPIError):
    """The service failed (5xx), or did not process the request (408, 425)."""

    transient = True


def requested_wait(error: Exception) -> float:
    """Seconds, 0 to 3600, that the service wants a caller to wait after an error."""
    seconds = error.retry_after if isinstance(error, WorkflowAPIError) else None
    return min(seconds or 0.0, MAX_WAIT_SECONDS)
