"""Rate limits, with one window per family of calls (docs/service.md 15)."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

from airflow_provider_workflow.emulator.rules.core import Core, atomic
from airflow_provider_workflow.emulator.rules.errors import ServiceError

WINDOW_SECONDS = 3600.0
"""Limits are requests per hour (docs/service.md 15)."""
UNLIMITED = ("page", "control")
"""Families that are not part of the service's API."""


@dataclass
class Window:
    """
    A fixed window that begins with its first request.

    :param limit: maximum number of requests; None for the limit of the settings.
    :param seconds: length of the window.
    """

    limit: int | None = None
    seconds: float = WINDOW_SECONDS
    resets_at: float = 0.0
    used: int = 0


class Limits:
    """
    The limits of the families; a family without one has the limit of the settings.
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        self._windows: defaultdict[str, Window] = defaultdict(Window)

    def clear(self) -> None:
        """Remove all limits, and all counts of requests."""
        self._windows.clear()

    @atomic
    def set(self, family: str, limit: int | None, window_seconds: float = WINDOW_SECONDS) -> None:
        """
        Limit a family of calls (control).

        :param family: ``guess``, ``templates``, ``inbox``, ``token`` or ``promotions``.
        :param limit: requests per window, 0 or more; None restores the limit of the settings.
        :param window_seconds: length of the window, above 0.
        """
        self._windows[family] = Window() if limit is None else Window(limit, window_seconds)

    @atomic
    def spend(self, family: str, requests: int = 1) -> dict[str, str]:
        """
        Count a request.

        :param family: of ``Family``, or another name for an unknown request.
        :param requests: 0 for one that does not count.
        :return: the rate-limit headers of the response; none without a limit.
        :raises ServiceError: 429 with ``Retry-After`` in seconds.
        """
        window, now = self._windows[family], self.core.clock.now()
        limit = self.core.settings.rate_limit if window.limit is None else window.limit
        if limit is None or family in UNLIMITED:
            return {}
        if now >= window.resets_at:
            window.resets_at, window.used = now + window.seconds, 0
        used = window.used + requests
        window.used = min(used, limit)
        delta = self.core.settings.reset_header == "delta"
        headers = {
            "X-RateLimit-Limit": str(limit),
            "X-RateLimit-Remaining": str(limit - window.used),
            "X-RateLimit-Reset": str(math.ceil(window.resets_at - (now if delta else 0))),
        }
        if used > limit:
            headers["Retry-After"] = str(math.ceil(window.resets_at - now))
            raise ServiceError(429, "rate_limited", "Rate limit exceeded.", headers=headers)
        return headers
