"""The whole service without HTTP: every set of rules around one clock, lock and journal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from airflow_provider_workflow.emulator.clock import Clock, SystemClock
from airflow_provider_workflow.emulator.core import Core
from airflow_provider_workflow.emulator.inboxes import Inboxes
from airflow_provider_workflow.emulator.journal import Journal, SqliteJournal
from airflow_provider_workflow.emulator.leases import Leases
from airflow_provider_workflow.emulator.limits import Limits
from airflow_provider_workflow.emulator.mailboxes import Mailboxes
from airflow_provider_workflow.emulator.messages import Messages
from airflow_provider_workflow.emulator.oauth import OAuth
from airflow_provider_workflow.emulator.promotions import Promotions
from airflow_provider_workflow.emulator.settings import Settings
from airflow_provider_workflow.emulator.tokens import Tokens


class Store:
    """
    The rules, ready to be called from any thread: each public method runs alone (see
    :class:`airflow_provider_workflow.emulator.core.Core`). Several calls in a row stay together
    inside ``with store.core:``.

    :param clock: the time; the machine's when left out.
    :param settings: the knobs.
    :param state_path: the SQLite file that keeps the state, which is taken up again; None keeps it
        in memory only.
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
        self.mailboxes = Mailboxes(self.core, self.inboxes)
        self.messages = Messages(self.core, self.mailboxes)
        self.leases = Leases(self.core, self.mailboxes)
        self.promotions = Promotions(self.core)
        self.limits = Limits(self.core)
        self._restore()

    @property
    def clock(self) -> Clock:
        """The clock of every rule."""
        return self.core.clock

    @property
    def settings(self) -> Settings:
        """The knobs as they stand."""
        return self.core.settings

    def configure(self, **changes: Any) -> Settings:
        """
        Turn knobs, until :meth:`reset`.

        :param changes: fields of :class:`Settings`.
        """
        with self.core:
            self.core.settings = replace(self.core.settings, **changes)
        return self.core.settings

    def reset(self) -> None:
        """Forget everything: state, limits, turned knobs, and by how much the clock was moved."""
        with self.core:
            for rules in (
                self.tokens,
                self.oauth,
                self.inboxes,
                self.mailboxes,
                self.promotions,
                self.limits,
            ):
                rules.clear()
            self.core.settings = self.first_settings
            self.clock.set_offset(0)
            self.core.journal.clear()

    def close(self) -> None:
        """Let go of the state file."""
        self.core.close()

    def _restore(self) -> None:
        with self.core:
            for _, offset in self.core.journal.load("meta"):
                self.clock.set_offset(offset)
            for rules in (self.tokens, self.oauth, self.inboxes, self.mailboxes, self.promotions):
                rules.restore()
