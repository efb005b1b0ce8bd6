"""What all rules share: clock, settings, journal, and the atomic section around every change."""

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
    What open event streams and webhooks are notified of.

    :param inbox_id: where messages became available; None: tokens, inboxes or the clock changed.
    :param count: how many messages.
    :param url: the inbox's notification URL, or None.
    :param redelivery: whether they had been leased before.
    """

    inbox_id: str | None
    count: int = 0
    url: str | None = None
    redelivery: bool = False


class Core:
    """
    The atomic section of the rules, entered with ``with core:`` (or the :func:`atomic` decorator).

    One thread at a time is inside, so tests may call every public method of the rules directly while
    the server runs. Leaving the outermost section makes the changes durable, and only then tells the
    ``listeners`` of the notices made in it: nothing is announced that a ``kill -9`` could undo.
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
        """Notify the listeners, once the section is left."""
        self._notices.append(notice)

    def close(self) -> None:
        """Close the journal and stop listening to the clock; repeating it changes nothing."""
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
