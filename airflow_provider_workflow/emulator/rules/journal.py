"""Persistence of the state beyond the process: none, or an SQLite file."""

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
    The in-memory mode: nothing is written.

    The rules change their records, name each changed one with :meth:`save` or :meth:`forget`, and
    the end of the atomic section calls :meth:`commit`, before the response is sent.
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
    The disk mode. An answered request survives ``kill -9``: the operating system has the
    transaction before the response is sent. Not waiting for the disk itself (``synchronous=OFF``) keeps it
    fast and loses nothing, as long as only the process dies.

    :param path: the file; created when missing.
    """

    def __init__(self, path: str | Path) -> None:
        # The atomic section's lock lets one thread at a time in, so the check is not needed.
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
