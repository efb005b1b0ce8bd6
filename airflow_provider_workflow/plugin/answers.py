"""
Answers that are kept for some seconds, and the limit for the requests that fetch them.

Many browsers request the same. One request fetches it; meanwhile other requests get the former answer, if
there is one, or wait. A request that fetches or waits holds one of a few slots, so that a service that hangs
never holds more threads of the API server: without a free slot the answer is an error at once, and nothing
queues.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from airflow_provider_workflow import clock
from airflow_provider_workflow.plugin.errors import PageError, busy

LONGEST_SECONDS = 4.0
"""Limit for all requests to the service that one answer needs, together."""
MOST_AT_ONCE = 4
"""Answers that are fetched, or waited for, at once in a process."""
KEPT_SECONDS = 10.0
STALE_SECONDS = 60.0
"""How old an answer may be that is given while a newer one is fetched, or while there is no free slot."""
MOST_KEPT = 1_000

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
    """

    value: Any
    fetched_at: float
    error: PageError | None = None
    checked_at: float = 0.0


class Answers:
    """
    Answers by key. All methods may be called from any thread.

    :param seconds: how long an answer is kept.
    """

    def __init__(self, seconds: float = KEPT_SECONDS) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(MOST_AT_ONCE)
        self._kept: dict[Key, Kept] = {}
        self._fetching: dict[Key, Future[Kept]] = {}
        self._forgotten = 0

    def clear(self) -> None:
        """Forget all answers."""
        self.forget()

    def forget(self, beginning: Hashable = None) -> None:
        """
        Forget the answers whose key begins with a value, as something has changed; by default all.

        An answer that is being fetched is given to the requests that wait for it, and not kept.
        """
        with self._lock:
            self._forgotten += 1
            self._kept = {key: kept for key, kept in self._kept.items() if beginning not in (None, key[0])}
            self._fetching = {}

    def get(self, key: Key, fetch: Callable[[], Any]) -> Kept:
        """
        The answer for a key: a kept one, or a new one.

        :param fetch: returns its value, or raises ``PageError``, which is kept as well.
        :raises PageError: there is no free slot (``busy``).
        """
        with self._lock:
            kept, fetching = self._kept.get(key), self._fetching.get(key)
            age = clock.monotonic() - kept.checked_at if kept else STALE_SECONDS
            if kept and (age < self._seconds or (fetching and age < STALE_SECONDS)):
                return kept
            if not self._slots.acquire(blocking=False):
                if kept and age < STALE_SECONDS:
                    return kept
                raise busy()
            if fetching is None:
                promised: Future[Kept] = Future()
                self._fetching[key] = promised
                forgotten = self._forgotten
        try:
            if fetching is not None:
                return _awaited(fetching)
            return self._fetched(key, fetch, promised, forgotten)
        finally:
            self._slots.release()

    def peek(self, key: Key) -> Kept | None:
        """A kept answer that would be given without a fetch, and is no error; None if there is none."""
        with self._lock:
            kept = self._kept.get(key)
        if kept is None or kept.error or clock.monotonic() - kept.checked_at >= self._seconds:
            return None
        return kept

    def _fetched(self, key: Key, fetch: Callable[[], Any], promised: Future[Kept], forgotten: int) -> Kept:
        kept = None
        try:
            kept = self._tried(key, fetch)
            return kept
        finally:
            with self._lock:
                if self._fetching.get(key) is promised:
                    del self._fetching[key]
                if kept is not None and forgotten == self._forgotten:
                    self._keep(key, kept)
            if kept is None:  # an unexpected error; the requests that wait try again
                promised.cancel()
            else:
                promised.set_result(kept)

    def _tried(self, key: Key, fetch: Callable[[], Any]) -> Kept:
        try:
            value, error = fetch(), None
        except PageError as failed:
            value, error = None, failed
        now, checked_at = clock.now(), clock.monotonic()
        if error is None:
            return Kept(value, now, None, checked_at)
        with self._lock:
            before = self._kept.get(key)
        if before is None:
            return Kept(None, now, error, checked_at)
        return Kept(before.value, before.fetched_at, error, checked_at)

    def _keep(self, key: Key, kept: Kept) -> None:
        self._kept.pop(key, None)
        if len(self._kept) >= MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = kept

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


def _awaited(fetching: Future[Kept]) -> Kept:
    try:
        return fetching.result(LONGEST_SECONDS)
    except (CancelledError, FutureTimeoutError):
        raise busy() from None
