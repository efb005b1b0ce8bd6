"""Decides when a watcher rings, from what it saw and heard, and when it looks again."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_workflow.triggers.probing import Sight

BREATH_SECONDS = 1.0
"""How far two looks are apart at least, however often the event stream speaks."""


class Doorbell:
    """
    Level-triggered: it rings again and again while there is something to lease, not once for each arrival.

    It rings at once when messages are seen of which none was there at the last ring: those were taken then,
    and whoever took them may have left before these came. Otherwise it rings every ``renotify_seconds``.

    Where a look was cut short without finding anything, and something may have arrived, it rings in doubt:
    once for each time that something may have arrived, and not more often than every ``renotify_seconds``.

    :param renotify_seconds: between two rings for the same messages, and between two rings in doubt.
    :param poll_interval: seconds from one look to the next; doubles while there is no news.
    :param max_poll_interval: seconds that it doubles up to.
    """

    def __init__(self, renotify_seconds: float, poll_interval: float, max_poll_interval: float) -> None:
        self._renotify_seconds = renotify_seconds
        self._poll_interval = poll_interval
        self._max_poll_interval = max_poll_interval
        self._interval = poll_interval
        self._rung_for: frozenset[str] = frozenset()
        self._again_at = -math.inf
        self._in_doubt = True
        self._doubt_again_at = -math.inf

    def heard(self) -> None:
        """Something may have arrived: the event stream spoke, or nobody could listen for a while."""
        self._in_doubt = True
        self._interval = self._poll_interval

    def rings(self, sight: Sight, now: float) -> bool:
        """
        Whether to ring for what was just seen.

        :param now: seconds of a clock that only goes forward.
        """
        if sight.available:
            self._in_doubt = False
            return self._rings_for(sight.available, now)
        if sight.whole:
            self._in_doubt = False
            self._rung_for = frozenset()
        elif self._in_doubt and now >= self._doubt_again_at:
            self._in_doubt = False
            self._doubt_again_at = now + self._renotify_seconds
            return True
        return False

    def _rings_for(self, available: frozenset[str], now: float) -> bool:
        news = self._rung_for.isdisjoint(available)
        if not news and now < self._again_at:
            return False
        if news:
            self._interval = self._poll_interval
        self._rung_for = available
        self._again_at = now + self._renotify_seconds
        return True

    def next_look(self, now: float) -> float:
        """
        Seconds until it is time to look again, whatever the event stream says in between.

        :param now: seconds of the same clock.
        """
        wait, self._interval = self._interval, min(self._interval * 2, self._max_poll_interval)
        due = [self._again_at] if self._rung_for else []
        due += [self._doubt_again_at] if self._in_doubt else []
        return min([wait, *(moment - now for moment in due if moment > now)])
