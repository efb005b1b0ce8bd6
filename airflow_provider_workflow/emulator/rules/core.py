"""Shared by all rules: clock, settings, journal, and the atomic section around each change."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar, cast

from airflow_provider_workflow.emulator.clock import Clock
from airflow_provider_workflow.emulator.rules.journal import Journal
from airflow_provider_workflow.emulator.settings import Settings


@dataclass(frozen=True)
class Notice:
    """
    A change, for open event streams and webhooks.

    :param inbox_id: inbox with new available messages; None if tokens, inboxes or the clock changed.
    :param count: number of messages.
    :param url: the inbox's notification URL, or None.
    :param redelivery: whether the messages were leased before.
    """

    inbox_id: str | None
    count: int = 0
    url: str | None = None
    redelivery: bool = False


class Core:
    """
    The atomic section of the rules, entered with ``with core:`` (or the :func:`atomic` decorator).

    Only one thread at a time is inside, so tests may call public methods of the rules while the server
    runs. At the end of the outermost section the changes are committed, and then the ``listeners`` get the
    notices made in it: no change is announced that ``kill -9`` could undo.
    """

    def __init__(self, clock: Clock, settings: Settings, journal: Journal) -> None:
        self.clock = clock
        self.settings = settings
        self.journal = journal
        self.listeners: list[Callable[[Notice], None]] = []
        self._lock = threading.RLock()
        self._depth = 0
        self._notices: list[Notice] = []
        clock.listeners.append(self._clock_moved)

    def __enter__(self) -> Core:
        self._lock.acquire()
        self._depth += 1
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._depth == 1:
                self.journal.commit()
                self._notify()
        finally:
            self._depth -= 1
            self._lock.release()

    def announce(self, notice: Notice) -> None:
        """Notify the listeners at the end of the section."""
        self._notices.append(notice)

    def close(self) -> None:
        """Close the journal, and stop listening to the clock. Idempotent."""
        with self:
            if self._clock_moved in self.clock.listeners:
                self.clock.listeners.remove(self._clock_moved)
            self.journal.close()
            self.journal = Journal()

    def _notify(self) -> None:
        while self._notices:
            notices, self._notices = self._notices, []
            for notice in notices:
                for listener in list(self.listeners):
                    listener(notice)

    def _clock_moved(self) -> None:
        with self:
            self.journal.save("meta", "clock_offset", self.clock.offset)
            self.announce(Notice(None))


class HasCore(Protocol):
    """A set of rules."""

    core: Core


Rules = TypeVar("Rules", bound=HasCore)
P = ParamSpec("P")
R = TypeVar("R")


def atomic(method: Callable[Concatenate[Rules, P], R]) -> Callable[Concatenate[Rules, P], R]:
    """Run a method of the rules inside the atomic section."""

    @wraps(method)
    def inside(self: Rules, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.core:
            return method(self, *args, **kwargs)

    return cast("Callable[Concatenate[Rules, P], R]", inside)
