"""The service without HTTP: all rules, with one clock, lock and state file."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

from airflow_provider_workflow.emulator.clock import Clock
from airflow_provider_workflow.emulator.rules.core import Core
from airflow_provider_workflow.emulator.rules.errors import ServiceError
from airflow_provider_workflow.emulator.rules.inboxes import Inboxes
from airflow_provider_workflow.emulator.rules.oauth import OAuth
from airflow_provider_workflow.emulator.rules.queues import Messages
from airflow_provider_workflow.emulator.settings import Settings

UNLIMITED = ("page", "control")
"""Families of calls that are not part of the service's API, and have no rate limit."""


class Store(Core):
    """
    The rules of the service. They are thread-safe: each public method is atomic (see
    :class:`airflow_provider_workflow.emulator.rules.core.Core`), and so are the calls inside ``with store:``.

    :param clock: the machine's clock by default.
    :param settings: values that the service does not publish.
    :param state_path: SQLite file for the state, which is loaded if it exists; None keeps the state in
        memory.
    :raises OSError: the state file cannot be used.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        settings: Settings | None = None,
        state_path: str | Path | None = None,
    ) -> None:
        self.first_settings = settings or Settings()
        try:
            super().__init__(clock or Clock(), self.first_settings, state_path)
            self.tokens = OAuth(self)
            self.inboxes = Inboxes(self)
            self.messages = Messages(self, self.inboxes)
        except (sqlite3.Error, TypeError, ValueError, LookupError) as error:
            self.close()
            raise OSError(
                f"the state file {state_path} is not of this version of the emulator ({error}); delete it"
            ) from None
        self._windows: dict[str, tuple[float, int]] = {}

    def spend(self, family: str, requests: int = 1) -> dict[str, str]:
        """
        Count a request in the window of its family, which begins with its first request.

        :param family: ``guess``, ``templates``, ``inbox``, ``token``, ``promotions``, or ``unknown``.
        :param requests: 0 for one that does not count.
        :return: the rate-limit headers of the response (docs/service.md 15); none without a limit.
        :raises ServiceError: 429 with ``Retry-After`` in seconds.
        """
        limit, now = self.settings.rate_limit, self.clock.now()
        if limit is None or family in UNLIMITED:
            return {}
        with self:
            end, used = self._windows.get(family, (0.0, 0))
            if now >= end:
                end, used = now + self.settings.rate_window_seconds, 0
            used += requests
            self._windows[family] = end, min(used, limit)
        headers = {
            "X-RateLimit-Limit": str(limit),
            "X-RateLimit-Remaining": str(max(limit - used, 0)),
            "X-RateLimit-Reset": str(math.ceil(end)),
        }
        if used > limit:
            headers["Retry-After"] = str(math.ceil(end - now))
            raise ServiceError(429, "rate_limited", "Rate limit exceeded.", headers=headers)
        return headers

    def configure(self, **changes: Any) -> Settings:
        """
        Change settings, until :meth:`reset`.

        :param changes: fields of :class:`Settings`.
        :raises ValueError: a value is not valid; the text names the setting.
        """
        with self:
            self.settings = replace(self.settings, **changes)
        return self.settings

    def reset(self) -> None:
        """Reset everything: state, limits, changed settings, and moves of the clock."""
        with self:
            self.messages.queues.clear()
            self._windows.clear()
            self.settings = self.first_settings
            self.clock.set_offset(0)
            self.clear()
