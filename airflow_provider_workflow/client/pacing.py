"""How a thread that computes leaves an event loop beside it its turn."""

from __future__ import annotations

import time

TURN_SECONDS = 0.0005
REST_SECONDS = 0.0002
"""How long such a thread computes at a time, and how long it rests then."""


class Pace:
    """
    Of one thread, from now on; to be called often, between steps that are short.

    Threads share the interpreter: one that only computes keeps it for 5 ms (``sys.getswitchinterval()``) each
    time that an event loop has something to do. A thread that sleeps for a moment hands it over at once.
    """

    def __init__(self) -> None:
        self._rested_at = time.perf_counter()

    def __call__(self) -> None:
        """Rest, if it is time to."""
        if time.perf_counter() - self._rested_at >= TURN_SECONDS:
            time.sleep(REST_SECONDS)
            self._rested_at = time.perf_counter()
