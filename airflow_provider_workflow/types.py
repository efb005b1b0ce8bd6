"""
Types of what a DAG of yours is given, and of what the service answers, to be checked by a type checker.

The values are plain dictionaries, as Airflow stores them, and fields that the service adds later are kept.
For the same reason a field with one of several words has the type ``str``; comments list the words.

``Message`` and ``Lease`` take the type of the payload as their parameter; without one it is ``Any``::

    class Order(TypedDict):
        number: int

    message: Message[Order] = dag_run.conf["message"]

This module imports neither Airflow nor an HTTP library.
"""

from typing import Any, Generic, NotRequired

# In typing there are defaults of type variables from Python 3.13 on. NotRequired has an effect on a class
# whose annotations are no strings.
from typing_extensions import TypedDict, TypeVar

INITIALIZING = "initializing"
ACTIVE = "active"
PAUSED = "paused"
BY_USER = "user"
"""The ``paused_reason`` of a pause that a user wanted; the others are the service's (docs/service.md 2.3)."""
DELETING = "deleting"
"""A new inbox may already have its name."""
FAILED = "initialization_failure"
"""The fix is to delete the inbox and create it again (docs/service.md 2.2)."""
SETTLED_STATES = frozenset({ACTIVE, PAUSED, FAILED})
"""States that do not change without a call; ``initializing``, ``deleting`` and unknown ones are transient."""

Payload = TypeVar("Payload", default=Any)
"""The type of a payload."""
Entry = TypeVar("Entry")
"""The type of an entry of a list."""


class MessageAttributes(TypedDict, total=False):
    """Attributes of a message, such as its delivery count (docs/service.md 3)."""

    lease_count: int
    error_message: str | None
    possible_duplicate_data: bool


class Message(TypedDict, Generic[Payload]):
    """
    A message: ``dag_run.conf["message"]`` of a started run, or a message that a sensor returned.

    A payload that Airflow cannot store is null, and ``payload_json`` has it as a JSON string. One in the
    payload store is null too, and ``payload_object`` names the object, with the SHA-256 and the size in bytes
    of its content. ``airflow_provider_workflow.dispatch.payloads.payload_of`` returns the payload in all
    cases. Without a ``schema`` nothing checks its type.
    """

    id: str
    created_at: str | None
    payload: Payload
    payload_json: NotRequired[str]
    payload_object: NotRequired[str]
    payload_sha256: NotRequired[str]
    payload_bytes: NotRequired[int]
    message_attributes: MessageAttributes | None


class Lease(TypedDict, Generic[Payload]):
    """
    The result of a sensor with ``acknowledge="manual"``, for ``WorkflowAcknowledgeOperator``.

    ``leased_until`` is the moment at which its messages are redelivered, as the service writes it.
    ``inbox_name`` is the id again where the name is unknown.
    """

    inbox_id: str
    inbox_name: NotRequired[str]
    lease_id: str
    leased_until: str
    messages: list[Message[Payload]]


class Counted(TypedDict):
    """A number of messages, and the ids of the first 100 of them."""

    count: int
    ids: list[str]


class DispatchResult(TypedDict):
    """
    The result of a dispatch: the inbox, and the messages by outcome.

    ``existing`` messages were delivered before and have their run; a ``repeated`` message has the business
    key of another message that has it. There is no ``inbox_id`` if the inbox had no messages.
    """

    inbox_id: NotRequired[str]
    started: Counted
    existing: Counted
    repeated: Counted
    rejected: Counted
    dead_lettered: Counted


class DeadLetter(TypedDict):
    """
    The ``conf`` of a run of the dead-letter DAG: ASCII strings, which every database can store.

    ``connection_id`` is the id of the Airflow connection. ``inbox_name`` is the id again where the name is
    unknown, and dead letters of version 0.2.0 lack it. ``message_json`` is the whole message as a JSON
    string. ``target_dag_id`` is None if no route takes it; ``target_run_id`` is the id of the run that the
    message was meant to start.
    """

    connection_id: str
    inbox_id: str
    inbox_name: NotRequired[str]
    message_id: str
    created_at: str | None
    delivery_count: int
    reason: str
    cause: str
    target_dag_id: str | None
    target_run_id: str
    message_json: str


class Subscription(TypedDict, total=False):
    """What an inbox is subscribed to (docs/service.md 2)."""

    app_key: str
    action_key: str
    inputs: dict[str, Any]
    connection_id: str | int | None


class Inbox(TypedDict):
    """A trigger inbox (docs/service.md 2)."""

    id: str
    status: str  #: initializing, active, paused, deleting, initialization_failure
    created_at: NotRequired[str]
    name: NotRequired[str | None]
    paused_reason: NotRequired[str | None]
    notification_url: NotRequired[str | None]
    subscription: NotRequired[Subscription]


class ListedMessage(TypedDict):
    """A message in a list of the service: without its payload (docs/service.md 3)."""

    id: str
    created_at: NotRequired[str]
    status: NotRequired[str]  #: available, leased, acked, quarantined
    message_attributes: NotRequired[MessageAttributes]


class LeasedMessage(ListedMessage, total=False):
    """A message in a lease of the service: with its payload."""

    payload: dict[str, Any]


class LeaseAnswer(TypedDict):
    """The response to a lease request; without messages ``lease_id`` is None and ``results`` empty."""

    lease_id: str | None
    leased_until: str | None
    results: list[LeasedMessage]
    inbox_attributes: dict[str, Any]  #: ``status`` and ``paused_reason`` of the inbox
    sent_at: float  #: when the request was sent, in epoch seconds by the local clock; not from the service


class Receipt(TypedDict):
    """
    The response to an acknowledgement or a release.

    ``acked_id`` or ``released_id`` is None if no message matched.
    """

    acked_id: NotRequired[str | None]
    released_id: NotRequired[str | None]
    results: list[ListedMessage]


class Page(TypedDict, Generic[Entry]):
    """One page of a list; ``next`` is an absolute URL or None. Pages of messages have no ``count``."""

    count: NotRequired[int]
    next: str | None
    previous: str | None
    results: list[Entry]


class Guess(TypedDict):
    """
    A suggested workflow (docs/service.md 13.1).

    Each step has the best ``step`` and its ``alternatives``, which have ``app``, ``api`` and ``title``.
    """

    title: str
    steps: list[dict[str, Any]]
    prefilled_url: str
    messages: NotRequired[list[dict[str, Any]]]


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
