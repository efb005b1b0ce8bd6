"""A call to the service as a value, and the other steps that an attempt yields (see ``attempt.py``)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

from airflow_provider_workflow.client.wire import Answer

T = TypeVar("T")


class Family(str, Enum):
    """A group of endpoints with one base address and one rate gate."""

    GUESS = "guess"
    TEMPLATES = "templates"
    INBOX = "inbox"
    TOKEN = "token"  # noqa: S105 the name of a family, no secret
    PROMOTIONS = "promotions"


class Identity(str, Enum):
    """How a call says who is asking (docs/service.md 14)."""

    CLIENT_ID = "client_id in the query"
    BASIC = "client ID and secret by HTTP Basic"
    BEARER = "access token"


CONNECTION_SCOPE = ""
"""A scope of this value stands for the one that the connection names."""


@dataclass(frozen=True)
class Call(Generic[T]):
    """
    One request to one endpoint; its type parameter is the type of the answer.

    :param name: what the call is named in texts, such as ``lease_messages``.
    :param method: HTTP method.
    :param family: which base address and which rate gate.
    :param path: appended to the family's base address; parts are percent-encoded already.
    :param read: makes the answer's value of a 2xx answer.
    :param identity: how it is identified.
    :param scope: scope of the access token, where ``identity`` is ``BEARER``.
    :param query: query parameters.
    :param json: the body, sent as JSON.
    :param form: the body, sent as ``multipart/form-data``; holds secrets.
    :param repeatable: whether it may be sent again after anything. Where False it is repeated only
        when it surely had no effect: nothing was sent, or it was refused with 429.
    :param urgent: whether it goes through a rate gate before others: it gives up a lease in time.
    """

    name: str
    method: str
    family: Family
    path: str
    read: Callable[[Answer], T] = field(repr=False)
    identity: Identity = Identity.BEARER
    scope: str = CONNECTION_SCOPE
    query: Mapping[str, str] = field(default_factory=dict)
    json: Mapping[str, Any] | None = field(default=None, repr=False)
    form: Mapping[str, str] | None = field(default=None, repr=False)
    repeatable: bool = True
    urgent: bool = False


# The steps that an exchange (a generator) yields beside requests, calls and the renewals of others: a
# sender performs each in its own way, see ``attempt.py``.


@dataclass(frozen=True)
class Pause:
    """
    A step: wait.

    :param seconds: how long, above 0.
    """

    seconds: float


@dataclass(frozen=True)
class UserTokens:
    """
    A user's tokens, with times in seconds since 1970 as several machines read them.

    :param access_token: sent with each request.
    :param refresh_token: used up by the next refresh.
    :param renew_at: from here on they are renewed before they are used.
    :param expires_at: from here on the service refuses the access token.
    """

    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    renew_at: float
    expires_at: float


class TokenStore(Protocol):
    """
    Where a connection's user tokens are kept, for all processes; its methods may block.

    Both raise ``TokenStoreError`` where the store is unreachable.
    """

    def read(self) -> UserTokens | None:
        """
        The tokens that were written last; None where there are none.

        :raises LoginRequiredError: there is something that cannot be read.
        """

    def write(self, tokens: UserTokens) -> None:
        """Replace the tokens; they are kept once this returns."""


@dataclass(frozen=True)
class UseStore:
    """
    A step: use the store of the connection's user tokens.

    :param write: tokens to replace those in it; None reads them, and is answered with them, or None.
    """

    write: UserTokens | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Read:
    """
    A step: make the value of an answer that takes long to read; answered with it.

    :param read: makes it; only computes.
    :param answer: what it is made of.
    """

    read: Callable[[Answer], Any] = field(repr=False)
    answer: Answer = field(repr=False)


@dataclass(frozen=True)
class CarryThrough:
    """
    A step: perform this exchange to its end, even where the caller is cancelled in the middle of it.

    :param exchange: must not be left half done; answered with what it returns.
    """

    exchange: Generator[Any, Any, Any] = field(repr=False)
