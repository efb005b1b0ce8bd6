"""The service without HTTP: all rules, with one clock, lock and state file."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

from airflow_provider_workflow.emulator.clock import Clock
from airflow_provider_workflow.emulator.rules.core import Core, StateFileError, Table
from airflow_provider_workflow.emulator.rules.inboxes import Inboxes
from airflow_provider_workflow.emulator.rules.leases import Leases
from airflow_provider_workflow.emulator.rules.messages import Messages
from airflow_provider_workflow.emulator.rules.oauth import OAuth
from airflow_provider_workflow.emulator.rules.rate_limits import Limits
from airflow_provider_workflow.emulator.settings import Settings


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
        self.core = Core(clock or Clock(), self.first_settings, state_path)
        try:
            for _, (offset,) in self.core.load("meta"):
                self.clock.set_offset(offset)
            self.tokens = OAuth(self.core)
            self.inboxes = Inboxes(self.core)
            self.messages = Messages(self.core, self.inboxes)
            self._unenrolled = Table(self.core, "unenrolled", str)
        except (sqlite3.Error, TypeError, ValueError, LookupError) as error:
            self.close()
            raise StateFileError(
                f"the state file {state_path} is not of this version of the emulator ({error}); delete it"
            ) from None
        self.leases = Leases(self.core, self.messages)
        self.limits = Limits(self.core)

    @property
    def clock(self) -> Clock:
        """The clock of all rules."""
        return self.core.clock

    @property
    def settings(self) -> Settings:
        """The current settings."""
        return self.core.settings

    @property
    def unenrolled(self) -> list[str]:
        """
        The enrollments that were ended (docs/service.md 8). Any other id is taken as an existing enrollment,
        so tests need not create them.
        """
        return list(self._unenrolled.values())

    def unenroll(self, enrollment_id: str) -> None:
        """End an enrollment. Idempotent."""
        with self.core:
            self._unenrolled.save(enrollment_id, enrollment_id)

    def configure(self, **changes: Any) -> Settings:
        """
        Change settings, until :meth:`reset`.

        :param changes: fields of :class:`Settings`.
        :raises ValueError: a value is not valid; the text names the setting.
        """
        with self.core:
            self.core.settings = replace(self.core.settings, **changes)
        return self.core.settings

    def reset(self) -> None:
        """Reset everything: state, limits, changed settings, and moves of the clock."""
        with self.core:
            self.messages.queues.clear()
            self.inboxes.failures.clear()
            self.limits.clear()
            self.core.settings = self.first_settings
            self.clock.set_offset(0)
            self.core.clear()

    def close(self) -> None:
        """Close the state file."""
        self.core.close()
