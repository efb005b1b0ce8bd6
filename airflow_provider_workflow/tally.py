"""What became of messages, as numbers and as the ids that fit an XCom."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypedDict

from airflow_provider_workflow.values import plain

MOST_IDS = 100


class Counted(TypedDict):
    """A number of messages, and the ids of the first 100 of them."""

    count: int
    ids: list[str]


class DispatchResult(TypedDict):
    """What a dispatch returns: runs started, runs that existed already, messages refused."""

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
class Tally:
    """
    Counts messages by what became of them.

    :param result: the numbers so far.
    :param causes: why messages were refused, of the first 100 of them.
    :param seen: ids that were counted.
    """

    result: DispatchResult = field(default_factory=_nothing)
    causes: dict[str, str] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    def carry(self) -> dict[str, Any]:
        """What crosses a deferral, small and of plain JSON."""
        return {"result": self.result, "causes": self.causes}

    @classmethod
    def carried(cls, brought: dict[str, Any] | None) -> Tally:
        """Go on counting from what ``carry`` gave; of the messages counted it knows the first 100 ids."""
        if not brought:
            return cls()
        result: DispatchResult = brought["result"]
        counted = (result["started"], result["existing"], result["refused"])
        return cls(result, brought["causes"], {message_id for each in counted for message_id in each["ids"]})

    @property
    def handled(self) -> int:
        """All messages that something became of."""
        return sum(
            counted["count"]
            for counted in (self.result["started"], self.result["existing"], self.result["refused"])
        )

    @property
    def refused(self) -> int:
        """Messages that were refused."""
        return self.result["refused"]["count"]

    def count(self, outcome: str, message_id: str) -> None:
        """
        Count a message, once, however often it comes.

        :param outcome: ``started``, ``existing`` or ``refused``.
        """
        if message_id in self.seen:
            return
        self.seen.add(message_id)
        counted: Counted = self.result[outcome]  # type: ignore[literal-required]
        counted["count"] += 1
        if len(counted["ids"]) < MOST_IDS:
            counted["ids"].append(plain(message_id))

    def refuse(self, message_id: str, cause: str) -> None:
        """Count a refused message and keep why, for the task's final error."""
        self.count("refused", message_id)
        if len(self.causes) < MOST_IDS:
            self.causes[plain(message_id)] = plain(cause)

    def refused_text(self) -> str:
        """The refused messages in one sentence."""
        shown = "; ".join(f"{message_id}: {cause}" for message_id, cause in list(self.causes.items())[:10])
        return f"{self.refused} messages were refused and not acknowledged: {shown}"
