"""Persistence of the state: none, or an SQLite file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from airflow_provider_workflow.emulator.rules.records import pack

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
        found = self._db.execute("SELECT key, body FROM records WHERE kind = ? ORDER BY key", (kind,))
        return ((key, json.loads(body)) for key, body in found.fetchall())

    def clear(self) -> None:
        self._changed.clear()
        self._gone.clear()
        self._db.execute("DELETE FROM records")

    def close(self) -> None:
        self.commit()
        self._db.close()
