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
    :param waiting: messages that have no run yet, and are still delivered.
    :param unfinished: runs that have not succeeded, or not yet.
    :param kills: processes that were killed; None if the demo kills none.
    """

    messages: int
    runs: int
    lost: int
    twice: int
    waiting: int
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
            waiting=sum(status not in FINAL for status in without),
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
        return self.kept and self.waiting == self.unfinished == 0 and self.runs == self.messages

    def __str__(self) -> str:
        text = f"{self.messages} messages, {self.runs} runs, {self.lost} lost, {self.twice} twice"
        if self.kills is not None:
            text += f", {self.kills} kills"
        if self.waiting:
            text += f"; {self.waiting} without a run so far"
        if self.unfinished:
            text += f"; {self.unfinished} of the runs not successful so far"
        return text


def _has_message(run: Json) -> bool:
    return "id" in ((run["conf"] or {}).get("message") or {})
