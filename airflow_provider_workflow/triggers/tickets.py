"""
A ticket goes with each leased batch through Airflow: it tells which of its messages are in stored events.

Airflow reports a batch as done also for a watcher whose event it never made: one whose filter raised, or
that was cancelled before it yielded, or between its yield and the moment at which Airflow took the event.
So watchers write their side on the ticket: what they want, what they refuse, and that Airflow took their
event. A message is acknowledged where both sides agree.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from airflow_provider_workflow.dispatch.lease import HeldLease
from airflow_provider_workflow.triggers.event_payload import Carried


@dataclass(eq=False)
class Watcher:
    """
    One trigger that Airflow runs, as tickets know it.

    :param gone: whether Airflow has ended it.
    """

    gone: bool = False


class Refusal(NamedTuple):
    """Why a message cannot be put into an event; ``watcher`` is None where no watcher could."""

    cause: str
    watcher: Watcher | None = None

    @property
    def lasts(self) -> bool:
        """Whether the one who refused is still there to refuse it again."""
        return self.watcher is None or not self.watcher.gone


class Choice(NamedTuple):
    """
    What a watcher chooses of a batch.

    :param wanted: the messages that it wants.
    :param refused: why it refuses others, by their ids.
    :param again: ids of wanted ones that were in an event before.
    :param payload: of the event that it makes of what it wants; empty where it wants nothing.
    """

    wanted: list[Carried]
    refused: dict[str, str]
    again: frozenset[str] = frozenset()
    payload: Mapping[str, Any] = MappingProxyType({})

    @property
    def ids(self) -> list[str]:
        """Ids of the messages that it wants."""
        return [each.id for each in self.wanted]


class Settlement(NamedTuple):
    """
    What is to become of the messages of a batch.

    :param stored: in a stored event of each watcher that wants them.
    :param unwanted: wanted by no watcher.
    :param refused: refused by a watcher, whoever else wants them.
    :param again: perhaps in no event; they have to come again.
    """

    stored: list[str]
    unwanted: list[str]
    refused: dict[str, Refusal]
    again: list[str]


@dataclass(eq=False)
class Ticket:
    """
    One leased batch, or a part of one.

    :param inbox_id: where it was leased.
    :param lease: the lease that its messages belong to.
    :param messages: what it is offered to watchers with.
    :param choices: what watchers choose of it, found out before it is offered.
    """

    inbox_id: str
    lease: HeldLease
    messages: list[Carried]
    refused: dict[str, Refusal] = field(default_factory=dict)
    choices: dict[Watcher, Choice] = field(default_factory=dict)
    _wanted: dict[Watcher, frozenset[str]] = field(default_factory=dict)
    _marked: dict[Watcher, bool] = field(default_factory=dict)

    def judge(self, watcher: Watcher, wanted: Collection[str], refused: Mapping[str, str]) -> None:
        """
        A watcher has looked at all messages.

        :param wanted: ids of those that it puts into an event.
        :param refused: ids of those that it cannot put into one, and why.
        """
        self._wanted[watcher] = frozenset(wanted)
        for message_id, cause in refused.items():
            self.refused.setdefault(message_id, Refusal(cause, watcher))

    def mark(self, watcher: Watcher, proven: bool) -> None:
        """
        Airflow took the event of a watcher: its ``yield`` returned.

        :param proven: whether Airflow was seen to be at work after that.
        """
        self._marked[watcher] = proven

    def settle(self, acked: int, failed: int, rejected: int) -> Settlement:
        """
        Decide, once Airflow has reported.

        :param acked: watchers all of whose events are stored, as far as Airflow knows.
        :param failed: watchers that Airflow gave up.
        :param rejected: watchers that want none and refuse some.
        """
        ids = [each.id for each in self.messages]
        rest = [each for each in ids if each not in self.refused]
        if failed or not acked + rejected or len(self._wanted) < acked + rejected:
            return Settlement([], [], self.refused, rest)
        wanting = {each: [w for w, wanted in self._wanted.items() if each in wanted] for each in rest}
        stored = [each for each in rest if wanting[each] and all(w in self._marked for w in wanting[each])]
        unwanted = [each for each in rest if not wanting[each]]
        again = [each for each in rest if each not in stored and each not in unwanted]
        return Settlement(stored, unwanted, self.refused, again)

    def stands(self) -> bool:
        """
        Whether all watchers that wanted something are still there.

        One whose DAG was paused a moment ago is not, and then Airflow may have dropped its event and
        called it stored.
        """
        return not any(watcher.gone for watcher, wanted in self._wanted.items() if wanted)

    def is_proven(self) -> bool:
        """Whether Airflow was seen to be at work after it took each event."""
        return all(self._marked.values())
