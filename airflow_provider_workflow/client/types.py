"""
The bodies that the service answers with (docs/service.md 2, 3, 4, 7, 9.2 and 13).

They are ``TypedDict``: plain dictionaries at run time, so they cross XCom and trigger
serialisation as they are, and fields that the service adds later pass through untouched.
Enumerations are open for the same reason: they are typed ``str`` and listed in the comments.
"""

from __future__ import annotations

from typing import Any, TypedDict


class Subscription(TypedDict, total=False):
    """What an inbox is subscribed to (docs/service.md 2)."""

    app_key: str
    action_key: str
    inputs: dict[str, Any]
    connection_id: str | int | None


class _RequiredOfInbox(TypedDict):
    """What every inbox has."""

    id: str
    status: str  #: initializing, active, paused, deleting, initialization_failure


class Inbox(_RequiredOfInbox, total=False):
    """A trigger inbox (docs/service.md 2); the service may omit any of these fields."""

    created_at: str
    name: str | None
    paused_reason: str | None
    notification_url: str | None
    subscription: Subscription


class InboxAttributes(TypedDict, total=False):
    """The state of the inbox that comes with every lease (docs/service.md 4)."""

    status: str
    paused_reason: str | None


class MessageAttributes(TypedDict, total=False):
    """What the service knows of a message beside its payload (docs/service.md 3)."""

    lease_count: int
    error_message: str | None
    possible_duplicate_data: bool


class _RequiredOfMessage(TypedDict):
    """What every message has."""

    id: str


class Message(_RequiredOfMessage, total=False):
    """A message as lists show it: never with its payload (docs/service.md 3)."""

    created_at: str
    status: str  #: available, leased, acked, quarantined
    message_attributes: MessageAttributes


class LeasedMessage(Message, total=False):
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


class _RequiredOfRawStep(TypedDict):
    """What every step of a suggested workflow has."""

    app: str
    api: str


class RawStep(_RequiredOfRawStep, total=False):
    """A step of a suggested workflow (docs/service.md 13.1)."""

    title: str | None


class _RequiredOfGuessStep(TypedDict):
    """The step that a suggestion consists of."""

    step: RawStep


class GuessStep(_RequiredOfGuessStep, total=False):
    """The best step, and what else may have been meant (docs/service.md 13.1)."""

    alternatives: list[RawStep]


class _RequiredOfGuess(TypedDict):
    """What every guess has."""

    title: str
    steps: list[GuessStep]
    prefilled_url: str


class Guess(_RequiredOfGuess, total=False):
    """A suggested workflow (docs/service.md 13.1)."""

    messages: list[dict[str, Any]]


class Template(TypedDict, total=False):
    """A workflow template (docs/service.md 7); the service may leave fields out."""

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
    """The token endpoint's answer (docs/service.md 9.2)."""

    access_token: str
    expires_in: int
    token_type: str
    scope: str
    refresh_token: str
