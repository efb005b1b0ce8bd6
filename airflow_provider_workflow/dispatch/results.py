"""The outcomes of messages: counts, the first ids, and why messages were rejected."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow import observers, types
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.dispatch.lease import (
    ASSUMED_LAST_DELIVERY,
    HeldLease,
    delivery_count,
)
from airflow_provider_workflow.types import Counted as Counted
from airflow_provider_workflow.types import DispatchResult as DispatchResult

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)

MOST_IDS = 100
MOST_RUNS_SHOWN = 3


class Drained(Enum):
    """Why a drain ended."""

    EMPTY = "the inbox has no more messages"
    NO_CAPACITY = "the target DAG has as many unfinished runs as it may"
    LIMIT = "one task has handled as many messages as it may, or for as long as it may"
    UNREACHABLE = "the service is unreachable for now"


def _nothing() -> DispatchResult:
    return {
        "started": {"count": 0, "ids": []},
        "existing": {"count": 0, "ids": []},
        "rejected": {"count": 0, "ids": []},
        "dead_lettered": {"count": 0, "ids": []},
    }


@dataclass
class Counts:
    """
    Counts messages by outcome.

    :param result: the counts so far.
    :param causes: why the first 100 rejected messages were rejected, by message id.
    :param seen: ids that were counted.
    :param run_ids: the first few run ids, for a log line.
    :param failing: number of rejected messages for which the task fails.
    """

    result: DispatchResult = field(default_factory=_nothing)
    causes: dict[str, str] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    run_ids: list[str] = field(default_factory=list)
    failing: int = 0

    def carry(self) -> dict[str, Any]:
        """The state that a deferral keeps: small, and plain JSON."""
        return {"result": self.result, "causes": self.causes, "failing": self.failing}

    @classmethod
    def carried(cls, brought: dict[str, Any] | None) -> Counts:
        """The counts that ``carry`` returned; of the counted messages the first 100 ids are known."""
        if not brought:
            return cls()
        result: DispatchResult = {**_nothing(), **brought["result"]}
        counts = cls(result, brought["causes"], failing=brought["failing"])
        counts.seen = {message_id for counted in counts.counted().values() for message_id in counted["ids"]}
        return counts

    def counted(self) -> dict[str, Counted]:
        """The counts by outcome."""
        result = self.result
        return {
            "started": result["started"],
            "existing": result["existing"],
            "rejected": result["rejected"],
            "dead_lettered": result["dead_lettered"],
        }

    @property
    def handled(self) -> int:
        """Number of messages that were started, found, rejected or became dead letters."""
        return sum(counted["count"] for counted in self.counted().values())

    @property
    def rejected(self) -> int:
        """Number of rejected messages."""
        return self.result["rejected"]["count"]

    def count(self, outcome: str, message_id: str) -> None:
        """
        Count a message, once for all its deliveries: a rejected one by its last outcome.

        :param outcome: ``started``, ``existing``, ``rejected`` or ``dead_lettered``.
        """
        if message_id in self.seen and (outcome == "rejected" or not self._uncount_rejected(message_id)):
            return
        self.seen.add(message_id)
        counted = self.counted()[outcome]
        counted["count"] += 1
        if len(counted["ids"]) < MOST_IDS:
            counted["ids"].append(plain(message_id))

    def _uncount_rejected(self, message_id: str) -> bool:
        """Whether a message was counted as rejected, as far as its id is known; it no longer is."""
        rejected, shown = self.result["rejected"], plain(message_id)
        if shown not in rejected["ids"]:
            return False
        rejected["ids"].remove(shown)
        rejected["count"] -= 1
        self.failing -= self.causes.pop(shown, None) is not None
        return True

    def add_run(self, run_id: str) -> None:
        """Keep the id of a run if it is one of the first few."""
        if len(self.run_ids) < MOST_RUNS_SHOWN and run_id not in self.run_ids:
            self.run_ids.append(run_id)

    def summary(self) -> str:
        """The counts, and the first runs, in one line."""
        numbers = ", ".join(f"{number} {name}" for name, number in self._shown())
        more = self.handled - self.rejected > len(self.run_ids)
        runs = ", ".join(self.run_ids) + (", ..." if more else "")
        return f"{numbers} (runs {runs})" if self.run_ids else numbers

    def _shown(self) -> list[tuple[str, int]]:
        """The counts, dead letters only if there are any."""
        found = [(name.replace("_", "-"), each["count"]) for name, each in self.counted().items()]
        return found if found[-1][1] else found[:-1]

    def reject(self, message_id: str, cause: str | None) -> None:
        """
        Count a rejected message.

        :param cause: kept for the error of the task; None if the task does not fail for it.
        """
        self.failing += cause is not None and message_id not in self.seen
        self.count("rejected", message_id)
        if cause is not None and len(self.causes) < MOST_IDS:
            self.causes[plain(message_id)] = plain(cause)

    def rejected_text(self) -> str:
        """The rejected messages in one sentence."""
        shown = "; ".join(f"{message_id}: {cause}" for message_id, cause in list(self.causes.items())[:10])
        return f"{self.failing} messages were rejected and not acknowledged: {shown}"


def log_nameless(inbox: str, lease: HeldLease, conn_id: str, counts: Counts | None = None) -> None:
    """
    Count and log the messages of a lease that have no id, which can be neither started nor acknowledged.

    :param counts: where they are counted; None outside a task.
    """
    for position in lease.nameless:
        if counts is not None:
            cause = "it has no id, so it can be neither started nor acknowledged"
            counts.reject(f"number {position} of lease {lease.lease_id}", cause)
        observers.tell("rejected", inbox=inbox, conn_id=conn_id)
        log.error(
            "Inbox %s: the message at position %d of lease %s has no id; it cannot be acknowledged, and the"
            " service quarantines it",
            plain(inbox),
            position,
            plain(lease.lease_id),
        )


def log_rejection(hook: WorkflowHook, inbox: str, message: types.LeasedMessage, cause: object) -> None:
    """Log and count a rejected message; as an error if the service will not deliver it again."""
    observers.tell("rejected", inbox=inbox, conn_id=hook.workflow_conn_id)
    if delivery_count(message) >= ASSUMED_LAST_DELIVERY:
        log.error(
            "Inbox %s: message %s was rejected on its last delivery; the service quarantines it: %s",
            inbox,
            plain(message["id"]),
            cause,
        )
    else:
        log.warning("Inbox %s: message %s was rejected: %s", inbox, plain(message["id"]), cause)
