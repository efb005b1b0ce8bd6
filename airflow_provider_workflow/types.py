"""
Types of what a DAG of yours is given, to be checked by a type checker.

The values are plain dictionaries, as Airflow stores them. ``Message`` and ``Lease`` take the type of the
payload as their parameter; without one it is ``Any``::

    class Order(TypedDict):
        number: int

    message: Message[Order] = dag_run.conf["message"]

This module imports neither Airflow nor an HTTP library.
"""

from typing import Any, Generic, NotRequired

# In typing there are defaults of type variables from Python 3.13 on. NotRequired has an effect on a class
# whose annotations are no strings.
from typing_extensions import TypedDict, TypeVar

from airflow_provider_workflow.client.types import MessageAttributes

__all__ = ["Counted", "DeadLetter", "DispatchResult", "Lease", "Message", "MessageAttributes", "Payload"]

INITIALIZING = "initializing"
ACTIVE = "active"
PAUSED = "paused"
DELETING = "deleting"
"""A new inbox may already have its name."""
FAILED = "initialization_failure"
"""The fix is to delete the inbox and create it again (docs/service.md 2.2)."""
SETTLED_STATES = frozenset({ACTIVE, PAUSED, FAILED})
"""States that do not change without a call; ``initializing``, ``deleting`` and unknown ones are transient."""

Payload = TypeVar("Payload", default=Any)
"""The type of a payload."""


class Message(TypedDict, Generic[Payload]):
    """
    A message: ``dag_run.conf["message"]`` of a started run, or a message that a sensor returned.

    A payload that Airflow cannot store is null, and ``payload_json`` has it as a JSON string;
    ``airflow_provider_workflow.dispatch.payloads.payload_of`` returns the payload in both cases. The provider
    does not check the payload: its type is what you expect of the sender.
    """

    id: str
    created_at: str | None
    payload: Payload
    payload_json: NotRequired[str]
    message_attributes: MessageAttributes | None


class Lease(TypedDict, Generic[Payload]):
    """
    The result of a sensor with ``acknowledge="manual"``, for ``WorkflowAcknowledgeOperator``.

    ``leased_until`` is the moment at which its messages are redelivered, as the service writes it.
    """

    inbox_id: str
    lease_id: str
    leased_until: str
    messages: list[Message[Payload]]


class Counted(TypedDict):
    """A number of messages, and the ids of the first 100 of them."""

    count: int
    ids: list[str]


class DispatchResult(TypedDict, total=False):
    """The result of a dispatch: the inbox, and the messages by outcome."""

    inbox_id: str
    started: Counted
    existing: Counted
    refused: Counted
    dead_lettered: Counted


class DeadLetter(TypedDict):
    """
    The ``conf`` of a run of the dead-letter DAG: ASCII strings, which every database can store.

    ``connection_id`` is the id of the Airflow connection. ``message_json`` is the whole message as a JSON
    string. ``target_dag_id`` is None if no route takes it.
    """

    connection_id: str
    inbox_id: str
    message_id: str
    created_at: str | None
    delivery_count: int
    reason: str
    cause: str
    target_dag_id: str | None
    message_json: str
