"""A lease: how it is obtained, handed to a task, acknowledged and released."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow import clock, types
from airflow_provider_workflow.client import tolerant_json
from airflow_provider_workflow.client.arguments import MESSAGE_IDS
from airflow_provider_workflow.client.errors import (
    InboxPausedError,
    LeaseExpiredError,
    TransportError,
    WorkflowError,
)
from airflow_provider_workflow.client.inboxes import first_messages
from airflow_provider_workflow.dispatch.delivery import Delivery, delivery_count
from airflow_provider_workflow.inbox_names import name_of
from airflow_provider_workflow.source import SourceError, problem_of
from airflow_provider_workflow.text import counted, escaped
from airflow_provider_workflow.types import PAUSED

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)

MARGIN_SECONDS = 30.0
"""No run is started in these last seconds of a lease: its message could be redelivered meanwhile."""
MAX_HAND_OFF_LENGTH = 1_000_000
"""Characters of the messages that a trigger hands off to its task at most."""


@dataclass(frozen=True)
class HeldLease:
    """
    A lease that is not empty.

    :param inbox_id: id of the inbox; another inbox may have its name by now.
    :param lease_id: its id, needed to acknowledge and to release.
    :param ends_at: when it expires, in epoch seconds by the clock of the leasing process.
    :param leased_until: the same time as the service states it.
    :param deliveries: its messages, those with the highest delivery count first.
    """

    inbox_id: str
    lease_id: str
    ends_at: float
    leased_until: str
    deliveries: list[Delivery]

    @classmethod
    def of(
        cls, inbox_id: str, answer: types.LeaseAnswer, lease_seconds: int, conn_id: str
    ) -> HeldLease | None:
        """
        The lease of an answer; None for an empty one.

        A message without an id is logged as an error. Of more than 100 messages the others are redelivered.

        :param lease_seconds: the requested length, 1 to 3600 s. It begins when the request was sent.
        :param conn_id: id of the Airflow connection.
        """
        lease_id = escaped(str(answer.get("lease_id") or ""))
        deliveries: list[Delivery] = []
        for position, message in enumerate(answer.get("results") or [], 1):
            message_id: Any = message.get("id")
            if isinstance(message_id, (int, float)):
                # A number is an id like any other, though the service is said to send UUIDs.
                deliveries.append(Delivery.of(inbox_id, {**message, "id": json.dumps(message_id)}))
            elif isinstance(message_id, str) and message_id:
                deliveries.append(Delivery.of(inbox_id, message))
            else:
                log.error(
                    "Inbox %s: the message at position %d of lease %s has no id; it cannot be acknowledged,"
                    " and the service quarantines it",
                    name_of(inbox_id, conn_id),
                    position,
                    lease_id,
                )
        if not answer.get("lease_id") or not deliveries:
            return None
        return cls(
            inbox_id=inbox_id,
            lease_id=str(answer["lease_id"]),
            ends_at=answer["sent_at"] + lease_seconds,
            leased_until=str(answer.get("leased_until") or ""),
            deliveries=sorted(
                deliveries[: MESSAGE_IDS[1]], key=lambda delivery: delivery.count, reverse=True
            ),
        )

    def seconds_left(self) -> float:
        """Seconds in which runs may still be started; negative when it is too late."""
        return self.ends_at - MARGIN_SECONDS - clock.now()

    @property
    def message_ids(self) -> list[str]:
        """The ids of all messages."""
        return [delivery.id for delivery in self.deliveries]

    def hand_off(self) -> str:
        """
        The lease as one ASCII JSON string, for the task that a trigger resumes (``tolerant_json.encoded``).

        A string carries any payload from trigger to task. The payload itself, as a value of the event, can
        end the whole triggerer (a NUL, a lone surrogate, an integer over 64 bits).

        :raises ValueError: it is longer than ``MAX_HAND_OFF_LENGTH``.
        """
        content = {
            "inbox_id": self.inbox_id,
            "lease_id": self.lease_id,
            "ends_at": self.ends_at,
            "leased_until": self.leased_until,
            "messages": [delivery.message for delivery in self.deliveries],
        }
        return tolerant_json.encoded(content, MAX_HAND_OFF_LENGTH)

    @classmethod
    def from_hand_off(cls, text: str) -> HeldLease:
        """The lease that ``hand_off`` of this version or an earlier one wrote."""
        lease = json.loads(text)
        lease.pop("left_out", None)  # of 0.2.0
        messages = lease.pop("messages")
        return cls(**lease, deliveries=[Delivery.of(lease["inbox_id"], message) for message in messages])

    def acknowledge(self, hook: WorkflowHook, message_ids: Collection[str]) -> None:
        """
        Acknowledge messages; if the lease has expired, they are redelivered, and their runs are found.

        :param message_ids: 1 or more.
        :raises WorkflowError: the call failed.
        """
        name, ids = name_of(self.inbox_id, hook.workflow_conn_id), list(message_ids)
        try:
            answer = hook.acknowledge_messages(self.inbox_id, self.lease_id, ids)
        except LeaseExpiredError:
            log.info(
                "Inbox %s: a lease expired before its acknowledgement; its messages are redelivered", name
            )
            return
        if (done := len(answer.get("results") or [])) < len(ids):
            log.info(
                "Inbox %s: %d of %s acknowledged; the rest was before, or is redelivered",
                name,
                done,
                counted(len(ids), "message was", "messages were"),
            )

    def release(self, hook: WorkflowHook, message_ids: Collection[str]) -> None:
        """
        Release messages; if that fails, they are redelivered when the lease expires.

        :param message_ids: any number; without any, nothing is sent.
        """
        if not message_ids:
            return
        try:
            hook.release_messages(self.inbox_id, self.lease_id, list(message_ids))
        except LeaseExpiredError:
            log.info(
                "Inbox %s: a lease expired before its release", name_of(self.inbox_id, hook.workflow_conn_id)
            )
        except WorkflowError as error:
            log.warning(
                "Inbox %s: %s redelivered when the lease expires (%s)",
                name_of(self.inbox_id, hook.workflow_conn_id),
                counted(len(message_ids), "message is", "messages are"),
                error,
            )


def lease_once(
    hook: WorkflowHook, inbox_id: str, count: int, seconds: int, margin: float = MARGIN_SECONDS
) -> HeldLease | None:
    """
    Lease messages; None if there are none.

    :param count: messages at most, 1 to 100.
    :param seconds: length of the lease, 60 to 3600 s.
    :param margin: seconds before its end in which it is of no use.
    :raises SourceError: there are no messages, and no events arrive.
    :raises TransportError: the answer came too late to use the lease, and the messages are released.
    """
    for _ in range(10):  # some have messages without an id only
        try:
            answer = hook.lease_messages(inbox_id, count, seconds)
        except InboxPausedError as paused:
            state = {"status": PAUSED, "paused_reason": paused.paused_reason}
            check_source(inbox_id, hook.workflow_conn_id, state)
            raise
        lease = HeldLease.of(inbox_id, answer, seconds, hook.workflow_conn_id)
        if lease or not (answer.get("lease_id") and answer.get("results")):
            break
    if lease is None:
        check_source(inbox_id, hook.workflow_conn_id, answer.get("inbox_attributes") or {})
    elif clock.now() >= lease.ends_at - margin:
        lease.release(hook, lease.message_ids)
        text = f"the answer to a lease of {seconds} s took {clock.now() - answer['sent_at']:.0f} s"
        text += ", which leaves no time to use it. Increase lease_seconds"
        raise TransportError(text, sent=True, permanent=True)
    return lease


def has_redelivered(hook: WorkflowHook, inbox_id: str) -> bool:
    """
    Whether a message that can be leased was delivered before.

    That lease may have been too large to be read, or for the memory of its worker. A process that knows no
    earlier answer of the inbox must not lease as much again.

    :raises WorkflowError: the messages cannot be listed.
    """
    messages, _ = hook.client.run(first_messages, inbox_id, 1)
    return any(
        message.get("status") == "available" and (delivery_count(message) or 0) > 0 for message in messages
    )


def check_source(inbox_id: str, conn_id: str, inbox: Mapping[str, Any]) -> None:
    """
    Check that events arrive in an inbox.

    :param conn_id: id of the Airflow connection.
    :param inbox: its ``status`` and ``paused_reason``.
    :raises SourceError: they do not.
    """
    if (problem := problem_of(inbox, name_of(inbox_id, conn_id), conn_id)) is not None:
        raise SourceError(problem) from None
