"""The service without HTTP: all rules, with one clock, lock and journal."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

from airflow_provider_workflow.emulator.clock import Clock, SystemClock
from airflow_provider_workflow.emulator.rules.core import Core, Journal, SqliteJournal, StateFileError, atomic
from airflow_provider_workflow.emulator.rules.inboxes import Inboxes
from airflow_provider_workflow.emulator.rules.messages import Messages
from airflow_provider_workflow.emulator.rules.oauth import OAuth, Tokens
from airflow_provider_workflow.emulator.rules.queues import Leases, MessageQueues
from airflow_provider_workflow.emulator.rules.rate_limits import Limits
from airflow_provider_workflow.emulator.settings import Settings


class Promotions:
    """
    The enrollments that were ended (docs/service.md 8). Any other id is taken as an existing enrollment, so
    tests need not create them.
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        self.unenrolled: list[str] = []

    def restore(self) -> None:
        """Load the state from the journal."""
        self.unenrolled = [str(key) for key, _ in self.core.journal.load("unenrolled")]

    def clear(self) -> None:
        """Restore all enrollments."""
        self.unenrolled.clear()

    @atomic
    def unenroll(self, enrollment_id: str) -> None:
        """End an enrollment. Idempotent."""
        if enrollment_id not in self.unenrolled:
            self.unenrolled.append(enrollment_id)
            self.core.journal.save("unenrolled", enrollment_id, True)


class Store:
    """
    The rules of the service. They are thread-safe: each public method is atomic (see
    :class:`airflow_provider_workflow.emulator.rules.core.Core`), and so are the calls inside
    ``with store.core:``.

    :param clock: the machine's clock by default.
    :param settings: values that the service does not publish.
    :param state_path: SQLite file for the state, which is loaded if it exists; None keeps the state in
        memory.
    :raises StateFileError: the state file cannot be used.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        settings: Settings | None = None,
        state_path: str | Path | None = None,
    ) -> None:
        self.first_settings = settings or Settings()
        journal = SqliteJournal(state_path) if state_path else Journal()
        self.core = Core(clock or SystemClock(), self.first_settings, journal)
        self.tokens = Tokens(self.core)
        self.oauth = OAuth(self.core, self.tokens)
        self.inboxes = Inboxes(self.core)
        self.queues = MessageQueues(self.core, self.inboxes)
        self.messages = Messages(self.core, self.queues)
        self.leases = Leases(self.core, self.queues)
        self.promotions = Promotions(self.core)
        self.limits = Limits(self.core)
        try:
            self._restore()
        except (sqlite3.Error, TypeError, ValueError, LookupError) as error:
            self.close()
            raise StateFileError(
                f"the state file {state_path} is not of this version of the emulator ({error}); delete it"
            ) from None

    @property
    def clock(self) -> Clock:
        """The clock of all rules."""
        return self.core.clock

    @property
    def settings(self) -> Settings:
        """The current settings."""
        return self.core.settings

    def configure(self, **changes: Any) -> Settings:
        """
        Change settings, until :meth:`reset`.

        :param changes: fields of :class:`Settings`.
        """
        with self.core:
            self.core.settings = replace(self.core.settings, **changes)
        return self.core.settings

    def reset(self) -> None:
        """Reset everything: state, limits, changed settings, and moves of the clock."""
        with self.core:
            for rules in (
                self.tokens,
                self.oauth,
                self.inboxes,
                self.queues,
                self.promotions,
                self.limits,
            ):
                rules.clear()
            self.core.settings = self.first_settings
            self.clock.set_offset(0)
            self.core.journal.clear()

    def close(self) -> None:
        """Close the state file."""
        self.core.close()

    def _restore(self) -> None:
        with self.core:
            for _, offset in self.core.journal.load("meta"):
                self.clock.set_offset(offset)
            for rules in (self.tokens, self.oauth, self.inboxes, self.queues, self.promotions):
                rules.restore()
