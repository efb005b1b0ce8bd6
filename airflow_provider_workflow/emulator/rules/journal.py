"""Persistence of the state: none, or an SQLite file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from airflow_provider_workflow.emulator.rules.records import pack

Key = str | int


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


class SqliteJournal(Journal):
    """
    Writes to an SQLite file. The effect of an answered request survives ``kill -9``: the operating system
    has the transaction before the response is sent. ``synchronous=OFF`` does not wait for the disk, which is
    faster, and safe unless the operating system crashes.

    :param path: the file; created when missing.
    """

    def __init__(self, path: str | Path) -> None:
        # The lock of the atomic section makes the thread check unnecessary.
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=OFF")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS records"
            " (kind TEXT, key, body TEXT, PRIMARY KEY (kind, key)) WITHOUT ROWID"
        )
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
