"""A call to the service as a value: what to send, how it is identified, how its answer is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar

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
