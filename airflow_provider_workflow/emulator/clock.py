"""The clocks of the rules, which tests can move instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable

EPOCH_OF_TESTS = 1_767_225_600.0  # 2026-01-01T00:00:00Z
LATEST = 253_370_764_800.0
"""9999-01-01T00:00:00Z: the end of a lease is later, and has to be a date as well."""


class Clock:
    """
    The machine's clock, which can be moved.

    ``listeners`` are called after every move: open event streams check then whether their token has expired.
    """

    def __init__(self) -> None:
        self.listeners: list[Callable[[], None]] = []
        self.offset = 0.0

    def now(self) -> float:
        """Seconds since 1970, UTC."""
        return self._unmoved() + self.offset

    def advance(self, seconds: float) -> None:
        """
        Move this clock.

        :param seconds: negative values move it back.
        :raises ValueError: it would leave the years 1970 to 9998.
        """
        self.set_offset(self.offset + seconds)

    def set_offset(self, seconds: float) -> None:
        """
        Set the sum of all moves of this clock.

        :param seconds: 0 undoes all moves.
        :raises ValueError: as for :meth:`advance`.
        """
        if not 0 <= self._unmoved() + seconds < LATEST:
            raise ValueError("seconds: must leave the clock between the years 1970 and 9998.")
        self.offset = seconds
        for listener in list(self.listeners):
            listener()

    def _unmoved(self) -> float:
        return time.time()


class ManualClock(Clock):
    """A clock that stands still until a test moves it."""

    def _unmoved(self) -> float:
        return EPOCH_OF_TESTS
