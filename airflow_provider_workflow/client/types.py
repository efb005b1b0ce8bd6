"""
The bodies that the service answers with (specification 2, service facts 2, 3, 4, 7).

They are ``TypedDict``: plain dictionaries at run time, so they cross XCom and trigger
serialisation as they are, and fields that the service adds later pass through untouched.
Enumerations are open for the same reason: they are typed ``str`` and listed in the comments.
"""

from __future__ import annotations

from typing import Any, TypedDict


class Subscription(TypedDict, total=False):
    """What an inbox is subscribed to (service facts 2)."""

    app_key: str
    action_key: str
    inputs: dict[str, Any]
    connection_id: str | int | None


class Inbox(TypedDict):
    """A trigger inbox (specification 2.9, service facts 2)."""

    id: str
    created_at: str
    name: str | None
    status: str  #: initializing, active, paused, deleting, initialization_failure
    paused_reason: str | None
    notification_url: str | None
    subscription: Subscription


class InboxAttributes(TypedDict):
    """The state of the inbox that comes with every lease (service facts 4)."""

    status: str
    paused_reason: str | None


class MessageAttributes(TypedDict):
    """What the service knows of a message beside its payload (service facts 3)."""

    lease_count: int
    error_message: str | None
    possible_duplicate_data: bool


class Message(TypedDict):
    """A message as lists show it: never with its payload (service facts 3)."""

    id: str
    created_at: str
    status: str  #: available, leased, acked, quarantined
    message_attributes: MessageAttributes


class LeasedMessage(Message):
    """A message as a lease hands it over: with its payload."""

    payload: dict[str, Any]


class Lease(TypedDict):
    """The answer of a lease; an empty one has ``lease_id`` None and no results."""

    lease_id: str | None
    leased_until: str | None
    results: list[LeasedMessage]
    inbox_attributes: InboxAttributes


class Acknowledged(TypedDict):
    """The answer of an acknowledgement; ``acked_id`` is None when nothing matched."""

    acked_id: str | None
    results: list[Message]


class Released(TypedDict):
    """The answer of a release; ``released_id`` is None when nothing matched."""

    released_id: str | None
    results: list[Message]


class InboxPage(TypedDict):
    """One page of inboxes; ``next`` is a whole URL or None."""

    count: int
    next: str | None
    previous: str | None
    results: list[Inbox]


class MessagePage(TypedDict):
    """One page of messages; ``next`` is a whole URL or None, and nothing counts them."""

    next: str | None
    previous: str | None
    results: list[Message]


class RawStep(TypedDict):
    """A step of a suggested workflow (specification 2.4)."""

    title: str | None
    app: str
    api: str


class GuessStep(TypedDict):
    """The best step, and what else may have been meant (specification 2.3)."""

    step: RawStep
    alternatives: list[RawStep]


class Guess(TypedDict):
    """A suggested workflow (specification 2.2); ``messages`` may be missing."""

    title: str
    steps: list[GuessStep]
    prefilled_url: str
    messages: list[dict[str, Any]]


class Template(TypedDict, total=False):
    """A workflow template (service facts 7); the service may leave fields out."""

    id: int
    title: str
    slug: str
    status: str  #: draft, published
    description: str
    description_plain: str
    description_raw: str
    url: str
    create_url: str
    type: str
    steps: list[dict[str, Any]]


class Token(TypedDict, total=False):
    """The token endpoint's answer (specification 2.8)."""

    access_token: str
    expires_in: int
    token_type: str
    scope: str
    refresh_token: str
