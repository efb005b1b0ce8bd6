"""A pace that only counts, and notes in which threads."""

from __future__ import annotations

import threading


class Counting:
    """Stands for a ``Pace``."""

    def __init__(self) -> None:
        self.calls = 0
        self.threads: set[int] = set()

    def __call__(self) -> None:
        self.calls += 1
        self.threads.add(threading.get_ident())
