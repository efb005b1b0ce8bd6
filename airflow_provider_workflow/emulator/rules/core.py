"""Shared by all rules: clock, settings, the state file, and the atomic section around each change."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

from airflow_provider_workflow.emulator.clock import Clock
from airflow_provider_workflow.emulator.rules.records import pack
from airflow_provider_workflow.emulator.settings import Settings

Key = str | int

OPEN = """
PRAGMA locking_mode=EXCLUSIVE;
PRAGMA journal_mode=WAL;
PRAGMA synchronous=OFF;
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS records (kind TEXT, key, body TEXT, PRIMARY KEY (kind, key)) WITHOUT ROWID;
COMMIT;
"""
"""Opens a state file: two emulators on one file would number their records alike, and lose messages."""


class Journal:
    """
    The journal of the in-memory mode, which writes nothing.

    The rules call :meth:`save` or :meth:`forget` for each changed record. The end of the atomic section
    calls :meth:`commit`, before the response is sent.
    """

    def save(self, kind: str, key: Key, record: Any) -> None:
        """Add a new or changed record to the next commit."""

    def forget(self, kind: str, key: Key) -> None:
        """Add the deletion of a record to the next commit."""

    def commit(self) -> None:
        """Write the changes since the last commit."""

    def load(self, kind: str) -> Iterator[tuple[Key, Any]]:  # noqa: ARG002 - nothing is written
        """Yield (key, values) of every record of a kind, in the order of the keys."""
        return iter(())

    def clear(self) -> None:
        """Delete every record."""

    def close(self) -> None:
        """Commit, and close the file."""


class StateFileError(OSError):
    """The state file cannot be used; the text names it and the reason."""


class SqliteJournal(Journal):
    """
    Writes to an SQLite file, which is locked until it is closed or the process ends.

    The effect of an answered request survives ``kill -9``: the operating system has the transaction before
    the response is sent. ``synchronous=OFF`` does not wait for the disk, which is faster, and safe unless the
    operating system crashes.

    :param path: the file; created when missing.
    :raises StateFileError: another emulator uses the file, or it is no SQLite file that can be written.
    """

    def __init__(self, path: str | Path) -> None:
        # The lock of the atomic section makes the thread check unnecessary.
        try:
            self._db = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
            self._db.executescript(OPEN)
        except sqlite3.Error as error:
            in_use = getattr(error, "sqlite_errorname", "") == "SQLITE_BUSY"
            reason = "another emulator uses it; stop that one, or choose another file" if in_use else error
            raise StateFileError(f"the state file {path} cannot be used: {reason}") from None
        self._changed: dict[tuple[str, Key], Any] = {}
        self._gone: dict[tuple[str, Key], None] = {}

    def save(self, kind: str, key: Key, record: Any) -> None:
        self._changed[kind, key] = record

    def forget(self, kind: str, key: Key) -> None:
        self._changed.pop((kind, key), None)
        self._gone[kind, key] = None

    def commit(self) -> None:
        if not self._changed and not self._gone:
            return
        changed, self._changed = self._changed, {}
        gone, self._gone = self._gone, {}
        rows = [(kind, key, json.dumps(pack(record))) for (kind, key), record in changed.items()]
        with self._db:
            self._db.execute("BEGIN")
            if gone:
                self._db.executemany("DELETE FROM records WHERE kind = ? AND key = ?", list(gone))
            self._db.executemany("INSERT OR REPLACE INTO records VALUES (?, ?, ?)", rows)

    def load(self, kind: str) -> Iterator[tuple[Key, Any]]:
        rows = self._db.execute("SELECT key, body FROM records WHERE kind = ? ORDER BY key", (kind,))
        return ((key, json.loads(body)) for key, body in rows.fetchall())

    def clear(self) -> None:
        self._changed.clear()
        self._gone.clear()
        self._db.execute("DELETE FROM records")

    def close(self) -> None:
        self.commit()
        self._db.close()


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
