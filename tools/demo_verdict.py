"""The verdict of the demo: the messages of the service, compared with the DAG runs of Airflow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from tools.airflow_api import Json

FINAL = frozenset({"acked", "quarantined"})
"""Statuses after which a message is not delivered any more."""


@dataclass(frozen=True)
class Verdict:
    """Numbers of messages and of their runs.

    :param lost: messages that have no run, and are not delivered any more.
    :param twice: runs beyond the first one of a message.
    :param leased: messages that have no run yet, and are leased.
    :param available: messages that have no run yet, and are not leased.
    :param unfinished: runs that have not succeeded, or not yet.
    :param kills: processes that were killed; None if the demo kills none.
    """

    messages: int
    runs: int
    lost: int
    twice: int
    leased: int
    available: int
    unfinished: int
    kills: int | None = None

    @classmethod
    def of(cls, messages: Collection[Json], runs: Collection[Json], kills: int | None = None) -> Verdict:
        """Count.

        :param messages: of the inbox, as the emulator describes them.
        :param runs: of the target DAG, as Airflow's API describes them; those without a message, which a
            user started, do not count.
        """
        states = [(run["conf"]["message"]["id"], run["state"]) for run in runs if _has_message(run)]
        started = Counter(message_id for message_id, _ in states)
        without = [message["status"] for message in messages if message["id"] not in started]
        return cls(
            messages=len(messages),
            runs=len(states),
            lost=sum(status in FINAL for status in without),
            twice=len(states) - len(started),
            leased=without.count("leased"),
            available=without.count("available"),
            unfinished=sum(state != "success" for _, state in states),
            kills=kills,
        )

    @property
    def kept(self) -> bool:
        """Whether no message was lost, and none was started twice."""
        return self.lost == self.twice == 0

    @property
    def complete(self) -> bool:
        """Whether each message has exactly one run, which succeeded."""
        return (
            self.kept and self.leased == self.available == self.unfinished == 0 and self.runs == self.messages
        )

    def __str__(self) -> str:
        text = f"{self.messages} messages, {self.runs} runs, {self.lost} lost, {self.twice} twice"
        if self.kills is not None:
            text += f", {self.kills} kills"
        if self.leased:
            each = "it" if self.leased == 1 else "each"
            text += f"; {self.leased} in flight, not lost: {each} starts when its lease ends"
        if self.available:
            text += f"; {self.available} not leased yet"
        if self.unfinished:
            text += f"; {self.unfinished} of the runs not successful so far"
        return text


def _has_message(run: Json) -> bool:
    return "id" in ((run["conf"] or {}).get("message") or {})
