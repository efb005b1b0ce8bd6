"""
Answers that are kept for some seconds, and the limit for the requests that fetch them.

Many browsers request the same. One request fetches it; meanwhile other requests get the former answer, if
there is one, or wait. A request that fetches or waits holds one of a few slots, so that a service that hangs
never holds more threads of the API server: without a free slot the answer is an error at once, and nothing
queues. A connection whose service did not answer gets one slot until it answers again, so that the others are
left to other connections.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from cachetools import TLRUCache

from airflow_provider_workflow import clock
from airflow_provider_workflow.plugin.errors import PageError, busy

LONGEST_SECONDS = 4.0
"""Limit for all requests to the service that one answer needs, together."""
MOST_AT_ONCE = 4
"""Answers that are fetched, or waited for, at once in a process."""
KEPT_SECONDS = 10.0
STALE_SECONDS = 60.0
"""
How old an answer may be that is given while a newer one is fetched, or while there is no free slot: this, or
twice the time for which answers are kept, if that is longer.
"""
MOST_KEPT = 20_000
"""
Items of all kept answers together, such as inboxes and messages; those that were not used for longest are
dropped.
"""
AWAY = ("timeout", "unreachable")
"""Errors of a service that did not answer."""

Key = tuple[Hashable, ...]


@dataclass(frozen=True)
class Kept:
    """
    An answer.

    :param value: what was fetched.
    :param fetched_at: when, in seconds since 1970.
    :param error: why it could not be fetched; then ``value`` and ``fetched_at`` are those of the last
        success, or None and the present if there was none.
    :param checked_at: when it was fetched or could not be, by ``clock.monotonic``.
    :param is_lasting: whether ``value`` is still of use once newer ones cannot be fetched.
    :param withheld_at: when a caller of :meth:`Answers.peek` last got None instead, by ``clock.monotonic``.
    """

    value: Any
    fetched_at: float
    error: PageError | None = None
    checked_at: float = 0.0
    is_lasting: bool = False
    withheld_at: float = -math.inf

    def fetched(self) -> Any:
        """
        The value.

        :raises PageError: it could not be fetched.
        """
        if self.error is not None:
            raise self.error.again()
        return self.value


class Answers:
    """
    Answers by key, which begins with the id of the connection. All methods may be called from any thread.

    :param seconds: how long an answer is kept.
    """

    def __init__(self, seconds: float = KEPT_SECONDS) -> None:
        self._seconds = seconds
        self._stale_seconds = max(STALE_SECONDS, 2 * seconds)
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(MOST_AT_ONCE)
        self._kept: TLRUCache[Key, Kept, float] = TLRUCache(
            MOST_KEPT, self._ends_at, lambda: clock.monotonic(), _size
        )
        self._fetching: dict[Key, Future[Kept]] = {}
        self._held: Counter[Hashable] = Counter()
        self._away: set[Hashable] = set()
        self._forgotten = 0

    def clear(self) -> None:
        """Forget everything."""
        self.forget()
        with self._lock:
            self._away.clear()

    def forget(self, beginning: Hashable = None) -> None:
        """
        Forget the answers whose key begins with a value, as something has changed; by default all.

        An answer that is being fetched is given to the requests that wait for it, and not kept.
        """
        with self._lock:
            self._forgotten += 1
            for key in [key for key in self._kept if beginning in (None, key[0])]:
                self._kept.pop(key, None)
            self._fetching = {}

    def get(self, key: Key, fetch: Callable[[], Any], *, is_lasting: bool = False) -> Kept:
        """
        The answer for a key: a kept one, or a new one.

        :param fetch: returns its value, or raises ``PageError``, which is kept as well.
        :param is_lasting: keep the value beyond a minute, for the time in which newer ones cannot be fetched.
        :raises PageError: there is no free slot (``busy``).
        """
        with self._lock:
            kept, fetching = self._kept.get(key), self._fetching.get(key)
            age = clock.monotonic() - kept.checked_at if kept else self._stale_seconds
            if kept and (age < self._seconds or (fetching and age < self._stale_seconds)):
                return kept
            if not self._takes_slot(key[0]):
                if kept and age < self._stale_seconds:
                    return kept
                raise busy()
            if fetching is None:
                promised: Future[Kept] = Future()
                self._fetching[key] = promised
                forgotten = self._forgotten
        try:
            if fetching is not None:
                return _awaited(fetching)
            return self._fetched(key, partial(self._tried, key, fetch, is_lasting), promised, forgotten)
        finally:
            self._ends_slot(key[0])

    def peek(self, key: Key, seconds: float) -> Kept | None:
        """
        The answer that is kept for a key, without a fetch; None if there is none, or it is an error.

        From the age of ``seconds`` on, one caller every 10 seconds gets None, so that only one browser
        requests a newer answer; the others get the old one. After a minute, all get None.
        """
        now = clock.monotonic()
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or kept.error or now - kept.checked_at >= self._stale_seconds:
                return None
            if now - kept.checked_at < seconds or now < kept.withheld_at + self._seconds:
                return kept
            self._kept[key] = replace(kept, withheld_at=now)
            return None

    def put(self, key: Key, value: Any) -> None:
        """
        Keep a value that was fetched together with another one, beyond a minute like those of :meth:`get`
        with ``is_lasting``.
        """
        kept = Kept(value, clock.now(), None, clock.monotonic(), is_lasting=True)
        with self._lock:
            self._kept[key] = kept

    def _ends_at(self, _: Key, kept: Kept, __: float) -> float:
        """Until when an answer is kept."""
        return math.inf if kept.is_lasting else kept.checked_at + self._stale_seconds

    def _takes_slot(self, beginning: Hashable) -> bool:
        """Whether a slot was free for a connection; the caller holds the lock."""
        if (beginning in self._away and self._held[beginning]) or not self._slots.acquire(blocking=False):
            return False
        self._held[beginning] += 1
        return True

    def _ends_slot(self, beginning: Hashable) -> None:
        with self._lock:
            self._held[beginning] -= 1
            self._held += Counter()  # without those that hold none
        self._slots.release()

    def _fetched(self, key: Key, fetch: Callable[[], Kept], promised: Future[Kept], forgotten: int) -> Kept:
        kept = None
        try:
            kept = fetch()
            return kept
        finally:
            with self._lock:
                if self._fetching.get(key) is promised:
                    del self._fetching[key]
                if kept is not None:
                    self._remember(key[0], kept.error)
                if kept is not None and forgotten == self._forgotten:
                    self._kept[key] = kept
            if kept is None:  # an unexpected error; the requests that wait try again
                promised.cancel()
            else:
                promised.set_result(kept)

    def _remember(self, beginning: Hashable, error: PageError | None) -> None:
        if error is not None and error.code in AWAY:
            self._away.add(beginning)
        else:
            self._away.discard(beginning)

    def _tried(self, key: Key, fetch: Callable[[], Any], is_lasting: bool) -> Kept:
        try:
            value, error = fetch(), None
        except PageError as failed:
            # Without its frames, which have what the service sent.
            value, error = None, failed.again()
        if error is None:
            return Kept(value, clock.now(), None, clock.monotonic(), is_lasting)
        with self._lock:
            before = self._kept.get(key)
        return _failed(error, before, is_lasting)

    @contextmanager
    def slot(self) -> Iterator[None]:
        """
        Hold a slot during the context.

        :raises PageError: there is no free one (``busy``).
        """
        if not self._slots.acquire(blocking=False):
            raise busy()
        try:
            yield
        finally:
            self._slots.release()


def _size(kept: Kept) -> int:
    """The items of an answer, and one for its key."""
    return min(MOST_KEPT, 1 + (0 if kept.value is None else len(kept.value)))


def _failed(error: PageError, before: Kept | None, is_lasting: bool) -> Kept:
    """What is answered where nothing could be fetched: the last success, if there was one."""
    value, fetched_at = (before.value, before.fetched_at) if before else (None, clock.now())
    return Kept(value, fetched_at, error, clock.monotonic(), is_lasting)


def _awaited(fetching: Future[Kept]) -> Kept:
    try:
        return fetching.result(LONGEST_SECONDS)
    except (CancelledError, FutureTimeoutError):
        raise busy() from None
