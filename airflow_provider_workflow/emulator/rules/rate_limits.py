"""Rate limits, with one window per family of calls (docs/service.md 15)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from airflow_provider_workflow.emulator.rules.core import Core, atomic
from airflow_provider_workflow.emulator.rules.errors import ServiceError, invalid_field
from airflow_provider_workflow.emulator.settings import FAMILIES, RATE_WINDOW_SECONDS

UNLIMITED = ("page", "control")
"""Families that are not part of the service's API."""


@dataclass
class Window:
    """
    A fixed window that begins with its first request.

    :param limit: maximum number of requests.
    :param seconds: length of the window.
    :param by_settings: whether the limit is the one of the settings.
    """

    limit: int
    seconds: float = RATE_WINDOW_SECONDS
    by_settings: bool = False
    resets_at: float = 0.0
    used: int = 0


class Limits:
    """
    The limits of the families; a family without one has the limit of the settings.
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        self._windows: dict[str, Window] = {}

    def clear(self) -> None:
        """Remove all limits, and all counts of requests."""
        self._windows.clear()

    @atomic
    def set(self, family: str, limit: int | None, window_seconds: float = RATE_WINDOW_SECONDS) -> None:
        """
        Limit a family of calls (control).

        :param family: ``guess``, ``templates``, ``inbox``, ``token`` or ``promotions``.
        :param limit: requests per window, 0 or more; None restores the limit of the settings.
        :param window_seconds: length of the window, above 0.
        """
        if family not in FAMILIES:
            raise invalid_field("family", f"must be one of {', '.join(FAMILIES)}.")
        if limit is None:
            self._windows.pop(family, None)
        else:
            self._windows[family] = Window(limit, window_seconds)

    @atomic
    def spend(self, family: str) -> dict[str, str]:
        """
        Count a request.

        :param family: of ``FAMILIES``, or another name for an unknown request.
        :return: the rate-limit headers of the response; none without a limit.
        :raises ServiceError: 429 with ``Retry-After`` in seconds.
        """
        window = self._current_window(family)
        if window is None:
            return {}
        if window.used >= window.limit:
            seconds = math.ceil(window.resets_at - self.core.clock.now())
            headers = {**self._headers(window), "Retry-After": str(seconds)}
            raise ServiceError(429, "rate_limited", "Rate limit exceeded.", headers=headers)
        window.used += 1
        return self._headers(window)

    @atomic
    def headers(self, family: str) -> dict[str, str]:
        """The rate-limit headers of a response whose request does not count; none without a limit."""
        window = self._current_window(family)
        return self._headers(window) if window else {}

    def _current_window(self, family: str) -> Window | None:
        window, now = self._window(family), self.core.clock.now()
        if window is not None and now >= window.resets_at:
            window.resets_at, window.used = now + window.seconds, 0
        return window

    def _window(self, family: str) -> Window | None:
        window, limit = self._windows.get(family), self.core.settings.rate_limit
        if window is not None and not window.by_settings:
            return window
        if limit is None or family in UNLIMITED:
            return None
        if window is None or window.limit != limit:
            window = self._windows[family] = Window(limit, by_settings=True)
        return window

    def _headers(self, window: Window) -> dict[str, str]:
        delta = self.core.settings.reset_header == "delta"
        reset = math.ceil(window.resets_at - (self.core.clock.now() if delta else 0))
        return {
            "X-RateLimit-Limit": str(window.limit),
            "X-RateLimit-Remaining": str(window.limit - window.used),
            "X-RateLimit-Reset": str(reset),
        }
