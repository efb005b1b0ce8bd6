"""Rate limits, one window per family of calls (specification 8)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from airflow_provider_workflow.emulator.core import Core, atomic
from airflow_provider_workflow.emulator.errors import ServiceError, invalid_field
from airflow_provider_workflow.emulator.settings import FAMILIES


@dataclass
class Window:
    """
    A fixed window of time that begins with its first request.

    :param limit: requests allowed in it.
    :param seconds: its length.
    """

    limit: int
    seconds: float
    resets_at: float = 0.0
    used: int = 0


class Limits:
    """
    The limits in force; none at first.

    :param core: clock and settings.
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        self._windows: dict[str, Window] = {}

    def clear(self) -> None:
        """Lift every limit."""
        self._windows.clear()

    @atomic
    def set(self, family: str, limit: int | None, window_seconds: float = 3600) -> None:
        """
        Limit a family of calls (control).

        :param family: ``guess``, ``templates``, ``inbox``, ``token`` or ``promotions``.
        :param limit: requests allowed per window, 0 or more; None lifts the limit.
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

        :return: the rate headers of the answer; none without a limit.
        :raises ServiceError: 429 with ``Retry-After`` in seconds.
        """
        window = self._windows.get(family)
        if window is None:
            return {}
        now = self.core.clock.now()
        if now >= window.resets_at:
            window.resets_at, window.used = now + window.seconds, 0
        if window.used >= window.limit:
            headers = {**self._headers(window, now), "Retry-After": str(math.ceil(window.resets_at - now))}
            raise ServiceError(429, "rate_limited", "Rate limit exceeded.", headers=headers)
        window.used += 1
        return self._headers(window, now)

    def _headers(self, window: Window, now: float) -> dict[str, str]:
        delta = self.core.settings.reset_header == "delta"
        reset = math.ceil(window.resets_at - now if delta else window.resets_at)
        return {
            "X-RateLimit-Limit": str(window.limit),
            "X-RateLimit-Remaining": str(window.limit - window.used),
            "X-RateLimit-Reset": str(reset),
        }
