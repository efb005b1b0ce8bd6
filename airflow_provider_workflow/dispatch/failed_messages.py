"""
Messages of a batch that a function could not process: each becomes a dead letter, or is delivered again.

The service delivers a message about five times. A failed message is therefore not leased again by the same
task, and keeps its lease when only its last deliveries are left. A function that fails for one message alone
may be broken itself: until it succeeds for another message, the decision about that message waits.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_workflow import metrics
from airflow_provider_workflow.client import types
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.dispatch.dead_letters import DeadLetters, Reason, is_on_last_safe_delivery
from airflow_provider_workflow.dispatch.lease import (
    ASSUMED_LAST_DELIVERY,
    HIGH_DELIVERY_COUNT,
    HeldLease,
    delivery_count,
)
from airflow_provider_workflow.dispatch.payloads import payload_text

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)

MOST_SHOWN = 10
"""Failed messages that an error names."""


class FailedMessagesError(AirflowException):
    """
    Messages failed, and did not become dead letters. They were not acknowledged, and are delivered again.

    :param inbox: id or name.
    :param failed: ids and causes; empty if the function failed for dead letters only, too many in a row.
    """

    def __init__(self, inbox: str, failed: Mapping[str, str]) -> None:
        shown = "; ".join(f"{plain(each)}: {cause}" for each, cause in list(failed.items())[:MOST_SHOWN])
        more = "; ..." if len(failed) > MOST_SHOWN else ""
        super().__init__(
            f"Inbox {inbox}: {len(failed)} messages failed and were not acknowledged: {shown}{more}."
            " They are redelivered"
            if failed
            else f"Inbox {inbox}: the function failed for too many messages in a row. They are dead letters"
            " now, and the other messages were released"
        )


@dataclass(frozen=True)
class FailedMessage:
    """
    A message that the function could not process.

    :param message: as it was leased.
    :param cause: why, without values of the message.
    :param error: what the function raised for this message alone; None if it named the message.
    """

    message: types.LeasedMessage
    lease: HeldLease
    cause: str
    error: Exception | None = None


@dataclass
class FailedMessages:
    """
    Decides about failed messages.

    :param hook: its connection names the metrics.
    :param inbox: id or name.
    :param dead_letters: starts their runs; without it no message becomes a dead letter.
    :param acknowledge: called with a lease and the ids of messages that are dead letters now.
    :param left: failed messages that are not dead letters.
    """

    hook: WorkflowHook
    inbox: str
    dead_letters: DeadLetters | None
    acknowledge: Callable[[HeldLease, list[str]], None]
    left: list[FailedMessage] = field(default_factory=list)
    _undecided: list[FailedMessage] = field(default_factory=list)

    def whole(self, message: types.LeasedMessage) -> types.LeasedMessage:
        """
        The message with its payload as a string, if it may become a dead letter: the function may change it.
        """
        letters = self.dead_letters
        if letters is None or not (letters.is_due(message) or is_on_last_safe_delivery(message)):
            return message
        return {**message, "payload_json": payload_text(message)}

    def is_dead(self, message: types.LeasedMessage, lease: HeldLease) -> bool:
        """
        Whether a message is a dead letter: since an earlier delivery, or now, before its last one is over.

        :raises TargetError: Airflow does not answer.
        """
        letters = self.dead_letters
        if letters is None:
            return False
        if letters.is_found(message, lease.inbox_id):
            return True
        if delivery_count(message) < ASSUMED_LAST_DELIVERY or lease.seconds_left() <= 0:
            return False
        cause = "its earlier deliveries ended without a result: the process may have been killed"
        return letters.start(message, lease.inbox_id, None, Reason.FAILED, cause)

    def add(self, failed: FailedMessage, *, wait: bool) -> None:
        """
        Add a failed message.

        :param wait: whether to decide about it later, as the function may be broken for all messages.
        """
        metrics.count(metrics.REFUSED, 1, inbox=self.inbox, conn_id=self.hook.workflow_conn_id)
        log.warning(
            "Inbox %s: message %s failed on its delivery number %d: %s",
            plain(self.inbox),
            plain(failed.message["id"]),
            delivery_count(failed.message),
            failed.cause,
        )
        if wait:
            self._undecided.append(failed)
        else:
            self._settle(failed, at_fault=True)

    def decide(self, *, at_fault: bool) -> None:
        """
        Decide about the messages whose decision waits.

        :param at_fault: whether the messages are at fault, and not the function.
        """
        undecided, self._undecided = self._undecided, []
        for each in undecided:
            self._settle(each, at_fault=at_fault)

    def _settle(self, failed: FailedMessage, *, at_fault: bool) -> None:
        if not self._start_dead_letter(failed, at_fault=at_fault):
            self.left.append(failed)

    def _start_dead_letter(self, failed: FailedMessage, *, at_fault: bool) -> bool:
        letters, message, lease = self.dead_letters, failed.message, failed.lease
        if letters is None or not (
            is_on_last_safe_delivery(message) or (at_fault and letters.is_due(message))
        ):
            return False
        # After that another process may work on the message.
        if lease.seconds_left() <= 0:
            return False
        if not letters.start(message, lease.inbox_id, None, Reason.FAILED, failed.cause):
            return False
        self.acknowledge(lease, [message["id"]])
        return True

    @property
    def redelivered_at(self) -> float:
        """When the first of the failed messages can be leased again, in epoch seconds."""
        return min((each.lease.ends_at for each in (*self.left, *self._undecided)), default=math.inf)

    def release(self, release: Callable[[HeldLease, list[str]], None]) -> None:
        """
        Release the failed messages at the end of a task, so that its retry can lease them.

        Not those with a high delivery count: their last deliveries come only after their leases.

        :param release: called with each lease and the ids of its messages.
        """
        leases = {each.lease.lease_id: each.lease for each in self.left}
        for lease_id, lease in leases.items():
            of_lease = [each.message for each in self.left if each.lease.lease_id == lease_id]
            ids = [each["id"] for each in of_lease if delivery_count(each) < HIGH_DELIVERY_COUNT]
            if ids and lease.seconds_left() > 0:
                release(lease, ids)
