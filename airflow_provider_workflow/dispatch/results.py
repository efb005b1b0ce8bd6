"""The outcomes of messages: how many there are, the first ids, and why messages were rejected."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, cast

from airflow_provider_workflow.text import escaped
from airflow_provider_workflow.types import Counted, DispatchResult

MAX_IDS = 100


class DrainEnd(Enum):
    """Why a drain ended."""

    EMPTY = "the inbox has no more messages"
    NO_CAPACITY = "max_unfinished_runs is reached"
    LIMIT = "the limit of messages or of 10 minutes is reached; run it again for more"
    UNREACHABLE = "the service is unreachable for now"


def _nothing() -> DispatchResult:
    return {
        "started": {"count": 0, "ids": []},
        "existing": {"count": 0, "ids": []},
        "repeated": {"count": 0, "ids": []},
        "rejected": {"count": 0, "ids": []},
        "dead_lettered": {"count": 0, "ids": []},
    }


@dataclass
class Counts:
    """
    Counts messages by outcome.

    A message that is delivered again counts as ``existing`` again. A rejected one counts by its last outcome,
    as far as it is one of the first 100 that were rejected.

    :param result: the counts so far.
    :param causes: why the task fails: the causes of the first 100 rejected messages, by message id.
    """

    result: DispatchResult = field(default_factory=_nothing)
    causes: dict[str, str] = field(default_factory=dict)

    @classmethod
    def carried(cls, state: dict[str, Any] | None) -> Counts:
        """The counts that a deferral kept, as a dictionary that is small and plain JSON."""
        return cls({**_nothing(), **state["result"]}, state["causes"]) if state else cls()

    def by_outcome(self) -> dict[str, Counted]:
        """The counts of ``started``, ``existing``, ``repeated``, ``rejected`` and ``dead_lettered``."""
        return {name: cast("dict[str, Counted]", self.result)[name] for name in _nothing()}

    @property
    def handled(self) -> int:
        """Number of messages that were started, found, rejected or became dead letters."""
        return sum(counted["count"] for counted in self.by_outcome().values())

    def count(self, outcome: str, message_id: str) -> None:
        """
        Count a message.

        :param outcome: ``started``, ``existing``, ``repeated``, ``rejected`` or ``dead_lettered``.
        """
        escaped_id, rejected = escaped(message_id), self.result["rejected"]
        if escaped_id in rejected["ids"]:
            rejected["ids"].remove(escaped_id)
            rejected["count"] -= 1
            self.causes.pop(escaped_id, None)
        add(self.by_outcome()[outcome], escaped_id)

    def reject(self, message_id: str, cause: str | None) -> None:
        """
        Count a rejected message.

        :param cause: for the error of the task; None if the task does not fail for it.
        """
        self.count("rejected", message_id)
        if cause is not None and len(self.causes) < MAX_IDS:
            self.causes[escaped(message_id)] = escaped(cause)

    def summary(self) -> str:
        """The counts in one line, repeated messages and dead letters only if there are any."""
        numbers = {name: counted["count"] for name, counted in self.by_outcome().items()}
        seldom = ("repeated", "dead_lettered")
        outcomes = [name for name in numbers if numbers[name] or name not in seldom]
        return ", ".join(f"{numbers[name]} {name.replace('_', '-')}" for name in outcomes)

    def rejected_text(self) -> str:
        """The rejected messages in one sentence."""
        first = list(self.causes.items())[:10]
        causes = "; ".join(f"{message_id}: {cause}" for message_id, cause in first)
        number = self.result["rejected"]["count"]
        were = "1 message was" if number == 1 else f"{number} messages were"
        return f"{were} rejected and not acknowledged: {causes}"


def add(counted: Counted, message_id: str) -> None:
    """Count a message, and keep its id if it is one of the first 100."""
    counted["count"] += 1
    if len(counted["ids"]) < MAX_IDS:
        counted["ids"].append(escaped(message_id))
