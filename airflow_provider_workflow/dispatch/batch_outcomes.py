"""The outcomes of messages in batches, and whether the function of the task may be broken."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TypedDict

from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_workflow.dispatch.delivery import Delivery
from airflow_provider_workflow.dispatch.results import Counts, add
from airflow_provider_workflow.inbox_names import name_of
from airflow_provider_workflow.text import counted, escaped
from airflow_provider_workflow.types import Counted

log = logging.getLogger(__name__)

MAX_FAILED_IN_A_ROW = 20
"""Messages in a row for which the function may fail once it has processed one; then a drain stops."""
MAX_FAILED_AT_FIRST = 64
"""The same before it has processed any: 2 in the first try of a task, then 4, 8 ... 64."""
MAX_NAMED_MESSAGES = 10
"""Failed messages that an error names."""


class BatchResult(TypedDict):
    """
    The result of a task that works on batches.

    ``batches`` is the number of calls of the function, ``processed`` the messages that it returned for,
    ``dead_lettered`` those that it failed for and that are dead letters now.
    """

    inbox_id: str
    batches: int
    processed: Counted
    dead_lettered: Counted


class BatchError(AirflowException):
    """
    Messages were not processed; they were not acknowledged, and are redelivered.

    :param inbox_name: escaped.
    :param text: what is wrong, and the fix.
    """

    def __init__(self, inbox_name: str, text: str) -> None:
        super().__init__(f"Inbox {inbox_name}: {text}")


@dataclass
class Outcomes:
    """
    The outcomes of one task.

    :param inbox: id or name.
    :param conn_id: id of the Airflow connection.
    :param attempt: try of the task, 1 or more.
    :param calls: how often the function was called.
    :param processed: messages for which it returned.
    :param counts: counts the dead letters.
    :param failed: why each message failed that is no dead letter, and what the function raised for it.
    """

    inbox: str
    conn_id: str
    attempt: int
    calls: int = 0
    processed: Counted = field(default_factory=lambda: Counted(count=0, ids=[]))
    counts: Counts = field(default_factory=Counts)
    failed: dict[str, tuple[str, Exception | None]] = field(default_factory=dict)
    _failed_in_a_row: int = 0

    @property
    def inbox_name(self) -> str:
        """The name of the inbox, as far as this process knows it; escaped."""
        return name_of(self.inbox, self.conn_id)

    def add_call(self, processed: list[str], failed: int) -> None:
        """
        Count a call of the function.

        :param processed: ids of the messages for which it returned.
        :param failed: number of the others.
        """
        self.calls += 1
        self._failed_in_a_row = 0 if processed else self._failed_in_a_row + failed
        for message_id in processed:
            self.failed.pop(message_id, None)
            add(self.processed, message_id)

    def add_failed(self, delivery: Delivery, cause: str, error: Exception | None) -> None:
        """
        Keep a failed message that is no dead letter.

        :param error: what the function raised for it; None if it named the message.
        """
        self.failed[delivery.id] = cause, error
        log.warning(
            "Inbox %s: message %s failed on its delivery number %d, and is redelivered when its lease"
            " expires: %s",
            self.inbox_name,
            escaped(delivery.id),
            delivery.count,
            cause,
        )

    @property
    def may_be_broken(self) -> bool:
        """Whether the function failed for so many messages in a row that it may fail for all."""
        at_first = min(MAX_FAILED_AT_FIRST, 2 ** min(self.attempt, 10))
        return self._failed_in_a_row >= (MAX_FAILED_IN_A_ROW if self.processed["count"] else at_first)

    def log_summary(self) -> None:
        """Log all counts in one line."""
        log.info(
            "Inbox %s: processed %s in %s; %d failed, new dead letters: %d",
            self.inbox_name,
            counted(self.processed["count"], "message"),
            counted(self.calls, "batch", "batches"),
            len(self.failed),
            self.counts.result["dead_lettered"]["count"],
        )

    def result(self, inbox_id: str) -> BatchResult:
        """
        The result of the task.

        :raises BatchError: the function named messages that failed, or may be broken.
        :raises Exception: what it raised for the first message that failed.
        """
        if self.failed:
            raised = (error for _, error in self.failed.values() if error is not None)
            raise next(raised, BatchError(self.inbox_name, self._failed_text()))
        if self.may_be_broken:
            raise BatchError(
                self.inbox_name,
                "the function failed for too many messages in a row. They are dead letters now; a retry of"
                " this task goes on with the others",
            )
        return {
            "inbox_id": inbox_id,
            "batches": self.calls,
            "processed": self.processed,
            "dead_lettered": self.counts.result["dead_lettered"],
        }

    def _failed_text(self) -> str:
        failures = [f"{escaped(message_id)}: {cause}" for message_id, (cause, _) in self.failed.items()]
        more = "; ..." if len(failures) > MAX_NAMED_MESSAGES else ""
        return (
            f"{counted(len(failures), 'message')} failed without an acknowledgement:"
            f" {'; '.join(failures[:MAX_NAMED_MESSAGES])}{more}. They are redelivered when their leases"
            " expire"
        )
