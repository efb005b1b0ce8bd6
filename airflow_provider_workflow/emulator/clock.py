"""The clocks that the rules take, so that no test has to sleep."""

from __future__ import annotations

import time
from collections.abc import Callable

EPOCH_OF_TESTS = 1_767_225_600.0  # 2026-01-01T00:00:00Z


class Clock:
    """
    What both clocks have in common: they can be moved, and call their listeners when they are.

    ``listeners`` are called without arguments after every move, in the moving thread: an open event
    stream has to notice that its token has expired.
    """

    def __init__(self) -> None:
        self.listeners: list[Callable[[], None]] = []
        self.offset = 0.0

    def now(self) -> float:
        """Seconds since 1970, UTC."""
        raise NotImplementedError

    def advance(self, seconds: float) -> None:
        """
        Move this clock.

        :param seconds: how far; negative moves it back.
        """
        self.set_offset(self.offset + seconds)

    def set_offset(self, seconds: float) -> None:
        """
        Set how far this clock is from where it would be without any move.

        :param seconds: the distance; 0 undoes every move.
        """
        self.offset = seconds
        for listener in list(self.listeners):
            listener()


class SystemClock(Clock):
    """The machine's clock, plus what it was advanced by."""

    def now(self) -> float:
        return time.time() + self.offset


class ManualClock(Clock):
    """
    A clock that stands still until a test moves it.

    :param start: seconds since 1970 at which it stands.
    """

    def __init__(self, start: float = EPOCH_OF_TESTS) -> None:
        super().__init__()
        self.start = start

    def now(self) -> float:
        return self.start + self.offset
