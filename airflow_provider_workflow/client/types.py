"""
Types of the service's responses (docs/service.md 2, 3, 4, 7, 9.2 and 13).

They are ``TypedDict``, so values are plain dictionaries: XCom and triggers can serialize them, and fields
that the service adds later are kept. For the same reason enumerations have the type ``str``; comments list
their values.
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
    """Required fields of an inbox."""

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
    """The state of the inbox in the response to a lease request (docs/service.md 4)."""

    status: str
    paused_reason: str | None


class MessageAttributes(TypedDict, total=False):
    """Attributes of a message, such as its delivery count (docs/service.md 3)."""

    lease_count: int
    error_message: str | None
    possible_duplicate_data: bool


class _RequiredOfMessage(TypedDict):
    """Required fields of a message."""

    id: str


class Message(_RequiredOfMessage, total=False):
    """A message in a list: without its payload (docs/service.md 3)."""

    created_at: str
    status: str  #: available, leased, acked, quarantined
    message_attributes: MessageAttributes


class LeasedMessage(Message, total=False):
    """A message in a lease: with its payload."""

    payload: dict[str, Any]
    payload_json: str  #: the whole payload of a replayed message, where ``payload`` is shortened


class Lease(TypedDict):
    """The response to a lease request; without messages ``lease_id`` is None and ``results`` empty."""

    lease_id: str | None
    leased_until: str | None
    results: list[LeasedMessage]
    inbox_attributes: InboxAttributes
    sent_at: float  #: when the request was sent, in epoch seconds by the local clock; not from the service


class Acknowledged(TypedDict):
    """The response to an acknowledgement; ``acked_id`` is None if no message matched."""

    acked_id: str | None
    results: list[Message]


class Released(TypedDict):
    """The response to a release; ``released_id`` is None if no message matched."""

    released_id: str | None
    results: list[Message]


class InboxPage(TypedDict):
    """One page of inboxes; ``next`` is an absolute URL or None."""

    count: int
    next: str | None
    previous: str | None
    results: list[Inbox]


class MessagePage(TypedDict):
    """One page of messages; ``next`` is an absolute URL or None. There is no count."""

    next: str | None
    previous: str | None
    results: list[Message]


class _RequiredOfRawStep(TypedDict):
    """Required fields of a step of a suggested workflow."""

    app: str
    api: str


class RawStep(_RequiredOfRawStep, total=False):
    """A step of a suggested workflow (docs/service.md 13.1)."""

    title: str | None


class _RequiredOfGuessStep(TypedDict):
    """Required fields of a guessed step."""

    step: RawStep


class GuessStep(_RequiredOfGuessStep, total=False):
    """The best step, and alternatives to it (docs/service.md 13.1)."""

    alternatives: list[RawStep]


class _RequiredOfGuess(TypedDict):
    """Required fields of a guess."""

    title: str
    steps: list[GuessStep]
    prefilled_url: str


class Guess(_RequiredOfGuess, total=False):
    """A suggested workflow (docs/service.md 13.1)."""

    messages: list[dict[str, Any]]


class Template(TypedDict, total=False):
    """A workflow template (docs/service.md 7); the service may omit fields."""

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
    """The response of the token endpoint (docs/service.md 9.2)."""

    access_token: str
    expires_in: int
    token_type: str
    scope: str
    refresh_token: str
