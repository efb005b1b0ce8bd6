"""The messages of the demo: small orders, put in bursts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count, repeat
from typing import Any

ITEMS = ("apples", "pears", "plums", "cherries", "quinces")


@dataclass
class Bursts:
    """Which messages are put, and when.

    :param sizes: messages of each burst.
    :param pause_seconds: minimum time between two bursts.
    :param per_kill: bursts for each kill; 0 if nothing is killed.
    """

    sizes: Iterator[int]
    pause_seconds: float = 5.0
    per_kill: int = 0
    _number: int = 0
    _orders: Iterator[int] = field(default_factory=partial(count, 1))
    _next_seconds: float = 0.0
    _next_size: int | None = None

    def __post_init__(self) -> None:
        self._next_size = next(self.sizes, None)

    @property
    def over(self) -> bool:
        """Whether all messages were put."""
        return self._next_size is None

    @classmethod
    def endless(cls) -> Bursts:
        """Some messages every few seconds, until the demo is stopped."""
        return cls(random.choice((1, 1, 2, 5)) for _ in repeat(None))

    @classmethod
    def few(cls) -> Bursts:
        """20 messages."""
        return cls(iter((1, 3, 6, 10)))

    @classmethod
    def for_kills(cls, kills: int) -> Bursts:
        """12 messages for each kill."""
        return cls(iter((2, 4, 6) * kills), pause_seconds=3.0, per_kill=3)

    def due(self, seconds: float, kills: int, *, idle: bool) -> list[dict[str, Any]]:
        """Return the payloads of the messages to put now.

        :param seconds: since the beginning.
        :param kills: how many were made. The bursts for a kill wait for the kill before it.
        :param idle: all messages have had their runs, so that nothing is leased: the bursts do not wait.
        """
        waits = self.per_kill > 0 and kills < self._number // self.per_kill and not idle
        size = self._next_size
        if size is None or seconds < self._next_seconds or waits:
            return []
        self._number += 1
        self._next_seconds, self._next_size = seconds + self.pause_seconds, next(self.sizes, None)
        return [order(next(self._orders)) for _ in range(size)]


def order(number: int) -> dict[str, Any]:
    """The payload of a message."""
    return {"order": number, "item": ITEMS[number % len(ITEMS)], "crates": 1 + number % 4}
