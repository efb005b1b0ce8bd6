"""
The exceptions of the client, and the one function that turns an answer into one of them.

::

    WorkflowError
    ├── ConfigurationError           the connection's fields are missing or wrong (all of them named)
    ├── TransportError               no usable answer came; ``sent`` tells whether bytes may have arrived
    │   └── TokenStoreError          the store of user tokens is unreachable
    └── WorkflowAPIError             the service answered with an error
        ├── AuthenticationError      401, 403, an expired token, refused credentials
        │   └── LoginRequiredError   the user's tokens are of no use any more: log in again
        ├── InvalidRequestError      any other 4xx: the request is at fault
        │   └── GuessRejectedError   the text describes no workflow
        ├── NotFoundError            404
        ├── ConflictError            409
        │   └── InboxPausedError     409 of a lease: paused, and nothing left to lease
        ├── LeaseExpiredError        400 ``lease_expired``: the messages come again
        ├── RateLimitError           429, or a wait that is too long to sleep through
        └── ServerError              5xx

A class stands for a thing that a caller does differently. Texts name the call, the status and
the service's own explanation; they never hold a token, a secret or a request body.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any


class WorkflowError(Exception):
    """
    Base of everything that this provider raises about the service.

    ``exhausted`` is set once a call has used up its own attempts, so that a call which depends on
    it (any call depends on its token) does not multiply them by its own.
    """

    exhausted = False

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are made again from ``args`` alone, which the keyword arguments are no part of.
        return _again, (type(self), self.args, vars(self))


def _again(kind: type[WorkflowError], args: tuple[Any, ...], state: dict[str, Any]) -> WorkflowError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class ConfigurationError(WorkflowError, ValueError):
    """
    Fields of the connection are missing or wrong.

    :param problems: one sentence per field, each naming the field and the fix.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__("The workflow connection cannot be used: " + "; ".join(problems) + ".")
        self.problems = problems


class TransportError(WorkflowError):
    """
    No usable answer came: connection refused, reset, timed out, or a body that is not JSON.

    :param sent: whether the service may have taken the request. Only when this is False may a
        call that is not repeatable be sent again.
    :param permanent: whether trying again cannot help (a certificate that does not verify).
    """

    def __init__(self, text: str, *, sent: bool, permanent: bool = False) -> None:
        super().__init__(text)
        self.sent = sent
        self.permanent = permanent


class TokenStoreError(TransportError):
    """
    User tokens could not be read from their store, or written to it; nothing was sent to the service.

    It is Airflow that did not answer; whoever waits for the service to come back waits for this too.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text, sent=False)


@dataclass(frozen=True)
class RateLimit:
    """
    What the ``X-RateLimit-*`` headers say (docs/service.md 15).

    :param limit: requests allowed in the window, or None.
    :param remaining: requests left in it, or None.
    :param reset: seconds until it resets, or None.
    """

    limit: int | None
    remaining: int | None
    reset: float | None


class WorkflowAPIError(WorkflowError):
    """
    The service answered with an error (docs/service.md 11).

    :param status: HTTP status code, or 0 where the call was held back before it was sent.
    :param code: ``errors[0].code``, or None.
    :param detail: ``errors[0].detail`` or the nearest thing to it in the answer.
    :param source: ``errors[0].source``: pointer, parameter or header at fault, or None.
    :param meta: ``errors[0].meta``, or the answer's own fields where it is no envelope.
    :param retry_after: seconds to wait before the next attempt, or None.
    :param rate_limit: the rate headers, or None.
    """

    def __init__(
        self,
        text: str,
        *,
        status: int,
        code: str | None = None,
        detail: str = "",
        source: dict[str, Any] | None = None,
        meta: dict[str, Any] | None = None,
        retry_after: float | None = None,
        rate_limit: RateLimit | None = None,
    ) -> None:
        super().__init__(text)
        self.status = status
        self.code = code
        self.detail = detail
        self.source = source
        self.meta = meta or {}
        self.retry_after = retry_after
        self.rate_limit = rate_limit


class AuthenticationError(WorkflowAPIError):
    """
    The token, the client ID or the client secret was refused (401, 403, 400 ``unauthenticated``).

    :param text: what the service answered; kept as ``reason``.
    """

    fix = ""
    """What to correct, once ``refused_by`` has named it."""

    def __init__(self, text: str, **more: Any) -> None:
        super().__init__(text, **more)
        self.reason = text

    def refused_by(self, host: str, connection_id: str, fix: str) -> None:
        """
        Let the text name the connection, unless it does so already.

        :param host: who refused it.
        :param connection_id: id of the Airflow connection.
        :param fix: what to correct.
        """
        if not self.fix:
            self.fix = fix
            self.args = (f"The connection {connection_id!r} is refused by {host}, {fix}: {self.reason}",)


class LoginRequiredError(AuthenticationError):
    """
    A connection's user tokens are missing or of no use any more (docs/service.md 14.3).

    :param connection_id: whose tokens.
    :param reason: why they cannot be used.
    """

    def __init__(self, connection_id: str, reason: str) -> None:
        self.fix = f"run: airflow-workflow login --conn-id {shlex.quote(connection_id)}"
        super().__init__(
            f"The user tokens of the connection {connection_id!r} cannot be used: {reason}."
            f" Log in again where Airflow runs; {self.fix}",
            status=0,
        )
        self.connection_id = connection_id
        self.reason = reason


class InvalidRequestError(WorkflowAPIError):
    """The service refuses the request itself; sending it again changes nothing (4xx)."""


class GuessRejectedError(InvalidRequestError):
    """The text describes no workflow (docs/service.md 13.2); ``messages`` says why."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        found = self.meta.get("messages")
        return found if isinstance(found, list) else []


class NotFoundError(WorkflowAPIError):
    """No such thing, or it was deleted (404)."""


class ConflictError(WorkflowAPIError):
    """The thing exists in another form, or is in another state (409)."""


class InboxPausedError(ConflictError):
    """The inbox is paused and drained (409 of a lease); ``meta`` holds ``paused_reason``."""

    @property
    def paused_reason(self) -> str:
        return str(self.meta.get("paused_reason") or "unknown")


class LeaseExpiredError(WorkflowAPIError):
    """The lease ran out before the call (400 ``lease_expired``); its messages come again."""


class RateLimitError(WorkflowAPIError):
    """Too many requests (429); ``retry_after`` says how many seconds to stay away."""


class ServerError(WorkflowAPIError):
    """The service failed (5xx)."""
