"""The outcomes of messages: counts, the first ids, and why messages were rejected."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

from airflow_provider_workflow import metrics
from airflow_provider_workflow.client import types
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.dispatch.lease import ASSUMED_LAST_DELIVERY, HeldLease, delivery_count

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)

MOST_IDS = 100
MOST_RUNS_SHOWN = 3


class Counted(TypedDict):
    """A number of messages, and the ids of the first 100 of them."""

    count: int
    ids: list[str]


class DispatchResult(TypedDict, total=False):
    """The result of a dispatch: runs started, runs that existed already, messages rejected, and the inbox."""

    inbox_id: str
    started: Counted
    existing: Counted
    refused: Counted


def _nothing() -> DispatchResult:
    return {
        "started": {"count": 0, "ids": []},
        "existing": {"count": 0, "ids": []},
        "refused": {"count": 0, "ids": []},
    }


@dataclass
class Counts:
    """
    Counts messages by outcome.

    :param result: the counts so far.
    :param causes: why the first 100 rejected messages were rejected, by message id.
    :param seen: ids that were counted.
    :param run_ids: the first few run ids, for a log line.
    """

    result: DispatchResult = field(default_factory=_nothing)
    causes: dict[str, str] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    run_ids: list[str] = field(default_factory=list)

    def carry(self) -> dict[str, Any]:
        """The state that a deferral keeps: small, and plain JSON."""
        return {"result": self.result, "causes": self.causes}

    @classmethod
    def carried(cls, brought: dict[str, Any] | None) -> Counts:
        """The counts that ``carry`` returned; of the counted messages the first 100 ids are known."""
        if not brought:
            return cls()
        result: DispatchResult = brought["result"]
        counted = (result["started"], result["existing"], result["refused"])
        return cls(result, brought["causes"], {message_id for each in counted for message_id in each["ids"]})

    @property
    def handled(self) -> int:
        """Number of messages that were started, found or rejected."""
        return sum(
            counted["count"]
            for counted in (self.result["started"], self.result["existing"], self.result["refused"])
        )

    @property
    def refused(self) -> int:
        """Number of rejected messages."""
        return self.result["refused"]["count"]

    def count(self, outcome: str, message_id: str) -> None:
        """
        Count a message, once for all its deliveries.

        :param outcome: ``started``, ``existing`` or ``refused``.
        """
        if message_id in self.seen:
            return
        self.seen.add(message_id)
        counted: Counted = self.result[outcome]  # type: ignore[literal-required]
        counted["count"] += 1
        if len(counted["ids"]) < MOST_IDS:
            counted["ids"].append(plain(message_id))

    def add_run(self, run_id: str) -> None:
        """Keep the id of a run if it is one of the first few."""
        if len(self.run_ids) < MOST_RUNS_SHOWN and run_id not in self.run_ids:
            self.run_ids.append(run_id)

    def summary(self) -> str:
        """The counts, and the first runs, in one line."""
        numbers = ", ".join(
            f"{self.result[name]['count']} {name}" for name in ("started", "existing", "refused")
        )
        more = self.result["started"]["count"] + self.result["existing"]["count"] > len(self.run_ids)
        runs = ", ".join(self.run_ids) + (", ..." if more else "")
        return f"{numbers} (runs {runs})" if self.run_ids else numbers

    def refuse(self, message_id: str, cause: str) -> None:
        """Count a rejected message and keep the cause for the error of the task."""
        self.count("refused", message_id)
        if len(self.causes) < MOST_IDS:
            self.causes[plain(message_id)] = plain(cause)

    def rejected_text(self) -> str:
        """The rejected messages in one sentence."""
        shown = "; ".join(f"{message_id}: {cause}" for message_id, cause in list(self.causes.items())[:10])
        return f"{self.refused} messages were rejected and not acknowledged: {shown}"


def log_nameless(inbox: str, lease: HeldLease, conn_id: str, counts: Counts | None = None) -> None:
    """
    Count and log the messages of a lease that have no id, which can be neither started nor acknowledged.

    :param counts: where they are counted; None outside a task.
    """
    for position in lease.nameless:
        if counts is not None:
            cause = "it has no id, so it can be neither started nor acknowledged"
            counts.refuse(f"number {position} of lease {lease.lease_id}", cause)
        metrics.count(metrics.REFUSED, 1, inbox=inbox, conn_id=conn_id)
        log.error(
            "Inbox %s: the message at position %d of lease %s has no id; it cannot be acknowledged, and the"
            " service quarantines it",
            plain(inbox),
            position,
            plain(lease.lease_id),
        )


def log_rejection(hook: WorkflowHook, inbox: str, message: types.LeasedMessage, cause: object) -> None:
    """Log and count a rejected message; as an error if the service will not deliver it again."""
    metrics.count(metrics.REFUSED, 1, inbox=inbox, conn_id=hook.workflow_conn_id)
    if delivery_count(message) >= ASSUMED_LAST_DELIVERY:
        log.error(
            "Inbox %s: message %s was rejected on its last lease; the service quarantines it: %s",
            inbox,
            plain(message["id"]),
            cause,
        )
    else:
        log.warning("Inbox %s: message %s was rejected: %s", inbox, plain(message["id"]), cause)
