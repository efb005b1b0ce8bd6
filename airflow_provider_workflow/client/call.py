"""A call to the service as a value, and what sends it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeAlias, TypeVar

from airflow_provider_workflow.client.http_messages import Answer

T = TypeVar("T")
P = ParamSpec("P")


class Family(StrEnum):
    """Endpoints with one base URL, one way to authenticate (docs/service.md 14) and one rate gate."""

    GUESS = "guess"
    TEMPLATES = "templates"
    INBOX = "inbox"
    TOKEN = "token"  # noqa: S105 the name of a family, not a secret
    PROMOTIONS = "promotions"


WITH_CLIENT_ID = (Family.GUESS, Family.TEMPLATES)
"""These have the client ID in the query; calls for tokens use HTTP Basic, all others an access token."""
PROMOTIONS_SCOPE = "promotions:write"
"""Of the access token for promotions; that for inboxes has the connection's scope."""


@dataclass(frozen=True)
class Call(Generic[T]):
    """
    One request to one endpoint; its type parameter is the type of the answer.

    :param name: name of the call in logs and errors, such as ``lease_messages``.
    :param method: HTTP method.
    :param family: determines the base URL, the authentication and the rate gate.
    :param path: appended to the family's base URL; already percent-encoded.
    :param read: returns the value of a 2xx answer.
    :param query: query parameters.
    :param json: the body, sent as JSON.
    :param form: the body, sent as ``multipart/form-data``; contains secrets.
    :param repeatable: whether it can be sent again after any failure. If False, it is repeated only
        if it had no effect: nothing was sent, or it was rejected with 429.
    :param limit: maximum number of bytes of the answer's body, decompressed.
    """

    name: str
    method: str
    family: Family
    path: str
    read: Callable[[Answer], T] = field(repr=False)
    query: Mapping[str, str] = field(default_factory=dict)
    json: Mapping[str, Any] | None = field(default=None, repr=False)
    form: Mapping[str, str] | None = field(default=None, repr=False)
    repeatable: bool = True
    limit: int = 16_000_000


class Send(Protocol):
    """How a client sends a call and returns its value, with the retries that it makes."""

    async def __call__(self, call: Call[T], /) -> T: ...


Calls: TypeAlias = Callable[Concatenate[Send, P], Coroutine[Any, Any, T]]
"""Makes several calls through its first argument, such as those for a list of several pages."""


class RunInThread(Protocol):
    """How a client runs a function that may block: a trigger does so in a thread."""

    async def __call__(self, function: Callable[[], T], /) -> T: ...
