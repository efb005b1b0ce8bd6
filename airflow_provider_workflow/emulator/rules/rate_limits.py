"""Rate limits, with one window per family of calls (docs/service.md 15)."""

from __future__ import annotations

import math

from airflow_provider_workflow.emulator.rules.core import Core, atomic
from airflow_provider_workflow.emulator.rules.errors import ServiceError

UNLIMITED = ("page", "control")
"""Families that are not part of the service's API."""


class Limits:
    """
    Counts the requests of each family, in a fixed window that begins with its first request.
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        self._windows: dict[str, tuple[float, int]] = {}

    def clear(self) -> None:
        """Forget all requests."""
        self._windows.clear()

    @atomic
    def spend(self, family: str, requests: int = 1) -> dict[str, str]:
        """
        Count a request.

        :param family: ``guess``, ``templates``, ``inbox``, ``token``, ``promotions``, or ``unknown``.
        :param requests: 0 for one that does not count.
        :return: the rate-limit headers of the response; none without a limit.
        :raises ServiceError: 429 with ``Retry-After`` in seconds.
        """
        settings, now = self.core.settings, self.core.clock.now()
        limit = settings.rate_limit
        if limit is None or family in UNLIMITED:
            return {}
        end, used = self._windows.get(family, (0.0, 0))
        if now >= end:
            end, used = now + settings.rate_window_seconds, 0
        used += requests
        self._windows[family] = end, min(used, limit)
        headers = {
            "X-RateLimit-Limit": str(limit),
            "X-RateLimit-Remaining": str(max(limit - used, 0)),
            "X-RateLimit-Reset": str(math.ceil(end - now if settings.reset_header == "delta" else end)),
        }
        if used > limit:
            headers["Retry-After"] = str(math.ceil(end - now))
            raise ServiceError(429, "rate_limited", "Rate limit exceeded.", headers=headers)
        return headers
