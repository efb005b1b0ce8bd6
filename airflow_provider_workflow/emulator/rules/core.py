"""Shared by all rules: clock, settings, stored records, and the atomic section around each change."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

from airflow_provider_workflow.emulator.clock import Clock
from airflow_provider_workflow.emulator.rules.records import values_of
from airflow_provider_workflow.emulator.settings import Settings

Key = str | int
Record = TypeVar("Record")
Method = TypeVar("Method", bound=Callable[..., Any])

OPEN = """
PRAGMA locking_mode=EXCLUSIVE;
PRAGMA journal_mode=WAL;
PRAGMA synchronous=OFF;
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS records (kind TEXT, key, body TEXT, PRIMARY KEY (kind, key));
COMMIT;
"""
"""Opens a state file: two emulators on one file would number their records alike, and lose messages."""
SAVE = "INSERT INTO records VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET body = excluded.body"


class Core:
    """
    The atomic section of the rules, entered with ``with core:`` (or the :func:`atomic` decorator).

    Only one thread at a time is inside, so tests may call public methods of the rules while the server
    runs. At the end of the outermost section the changes are committed, and then the ``listeners`` get the
    announcements made in it: nothing is announced that ``kill -9`` could undo.

    The effect of an answered request survives ``kill -9``: the operating system has it before the response
    is sent. ``synchronous=OFF`` does not wait for the disk.

    :param state_path: SQLite file, locked until it is closed or the process ends; None writes nothing.
    :raises OSError: another emulator uses the file, or it is no SQLite file that can be written.
    """

    def __init__(self, clock: Clock, settings: Settings, state_path: str | Path | None = None) -> None:
        self.clock = clock
        self.settings = settings
        self.listeners: list[Callable[[str | None], None]] = []
        self.tables: list[Table[Any]] = []
        self._lock = threading.RLock()
        self._depth = 0
        self._announced: list[str | None] = []
        self._db = _opened(state_path) if state_path else None
        self.is_stored = self._db is not None
        self._offset = Table(self, "clock_offset", float)
        for offset in self._offset.values():
            clock.set_offset(offset)
        clock.listeners.append(self._clock_moved)

    def __enter__(self) -> Core:
        self._lock.acquire()
        self._depth += 1
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._depth == 1:
                self.commit()
                announced, self._announced = self._announced, []
                for inbox_id in announced:
                    for listener in list(self.listeners):
                        listener(inbox_id)
        finally:
            self._depth -= 1
            self._lock.release()

    def announce(self, inbox_id: str | None) -> None:
        """
        Notify the listeners at the end of the section.

        :param inbox_id: inbox with new available messages; None if tokens, inboxes or the clock changed.
        """
        self._announced.append(inbox_id)

    def execute(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Execute a statement of SQL on the state file, if there is one; return its rows."""
        return self._db.execute(statement, values).fetchall() if self._db else []

    def commit(self) -> None:
        """Write the changes since the last commit."""
        if self._db:
            self._db.commit()

    def clear(self) -> None:
        """Delete every record, also from the file."""
        for table in self.tables:
            table.clear()
        self.execute("DELETE FROM records")

    def close(self) -> None:
        """Close the file, and stop listening to the clock. Idempotent."""
        with self:
            if self._clock_moved in self.clock.listeners:
                self.clock.listeners.remove(self._clock_moved)
            if self._db:
                self._db.commit()
                self._db.close()
                self._db = None

    def _clock_moved(self) -> None:
        with self:
            self._offset.save("clock_offset", self.clock.offset)
            self.announce(None)


class Table(dict[Key, Record]):
    """
    The records of one kind by key, in the order in which they were added.

    :param make: makes a record of the values that were stored.
    """

    def __init__(self, core: Core, kind: str, make: Callable[..., Record]) -> None:
        rows = core.execute("SELECT key, body FROM records WHERE kind = ? ORDER BY rowid", kind)
        super().__init__((key, make(*json.loads(body))) for key, body in rows)
        self._core = core
        self._kind = kind
        core.tables.append(self)

    def save(self, key: Key, record: Record) -> Record:
        """Add a record, or store its changes."""
        self[key] = record
        if self._core.is_stored:
            values = [*values_of(record).values()] if is_dataclass(record) else [record]
            self._core.execute(SAVE, self._kind, key, json.dumps(values))
        return record

    def forget(self, key: Key) -> Record | None:
        """Remove a record; return it, or None if there is none."""
        self._core.execute("DELETE FROM records WHERE kind = ? AND key = ?", self._kind, key)
        return self.pop(key, None)


def atomic(method: Method) -> Method:
    """Run a method of the rules, which have a ``core``, inside the atomic section."""

    @wraps(method)
    def inside(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self.core:
            return method(self, *args, **kwargs)

    return cast("Method", inside)


def _opened(path: str | Path) -> sqlite3.Connection:
    try:
        # The lock of the atomic section makes the thread check unnecessary.
        database = sqlite3.connect(path, timeout=0, check_same_thread=False)
        database.executescript(OPEN)
    except sqlite3.Error as error:
        in_use = getattr(error, "sqlite_errorname", "") == "SQLITE_BUSY"
        reason = "another emulator uses it; stop that one, or choose another file" if in_use else error
        raise OSError(f"the state file {path} cannot be used: {reason}") from None
    return database
