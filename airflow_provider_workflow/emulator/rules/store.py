"""The whole service without HTTP: every set of rules around one clock, lock and journal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from airflow_provider_workflow.emulator.clock import Clock, SystemClock
from airflow_provider_workflow.emulator.rules.core import Core, atomic
from airflow_provider_workflow.emulator.rules.inboxes import Inboxes
from airflow_provider_workflow.emulator.rules.journal import Journal, SqliteJournal
from airflow_provider_workflow.emulator.rules.leases import Leases
from airflow_provider_workflow.emulator.rules.messages import Messages
from airflow_provider_workflow.emulator.rules.oauth import OAuth
from airflow_provider_workflow.emulator.rules.queues import MessageQueues
from airflow_provider_workflow.emulator.rules.rate_limits import Limits
from airflow_provider_workflow.emulator.rules.tokens import Tokens
from airflow_provider_workflow.emulator.settings import Settings


class Promotions:
    """
    The enrollments that were ended (docs/service.md 8). Every other id is an enrollment, so that a test
    needs to make none.

    :param core: clock, settings, journal.
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        self.unenrolled: list[str] = []

    def restore(self) -> None:
        """Load what the journal kept."""
        self.unenrolled = [str(key) for key, _ in self.core.journal.load("unenrolled")]

    def clear(self) -> None:
        """Forget that any enrollment was ended."""
        self.unenrolled.clear()

    @atomic
    def unenroll(self, enrollment_id: str) -> None:
        """End an enrollment; repeating it changes nothing."""
        if enrollment_id not in self.unenrolled:
            self.unenrolled.append(enrollment_id)
            self.core.journal.save("unenrolled", enrollment_id, True)


class Store:
    """
    The rules, ready to be called from any thread: each public method runs alone (see
    :class:`airflow_provider_workflow.emulator.rules.core.Core`). Several calls in a row stay together
    inside ``with store.core:``.

    :param clock: the time; the machine's when left out.
    :param settings: what the specification leaves open.
    :param state_path: the SQLite file that keeps the state, and is loaded if it exists; None keeps the
        state in memory only.
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
        self._restore()

    @property
    def clock(self) -> Clock:
        """The clock of every rule."""
        return self.core.clock

    @property
    def settings(self) -> Settings:
        """The settings as they are now."""
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
        """Forget everything: state, limits, changed settings, and by how much the clock was moved."""
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
