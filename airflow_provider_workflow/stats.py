"""
How a metric reaches Airflow's own Stats, whatever that is set to (statsd, datadog, OpenTelemetry, nothing).

It is called at once in a task. Where an event loop is running, a thread of its own calls it: the first
call makes a client, and may look up a host name for that. Before Airflow 3.3 a plain thread must not
talk to the supervisor of a triggerer; this one talks to Stats alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import queue
import re
import threading
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

log = logging.getLogger(__name__)

LONGEST_TAG = {"inbox": 100, "conn_id": 80}
"""Characters. Name and tags have to fit in 250 together where tags are part of the name (InfluxDB)."""
MOST_WAITING = 10_000
"""Metrics that wait for the thread at most; those beyond are lost."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")

_waiting: queue.Queue[Callable[[], None]] = queue.Queue(MOST_WAITING)
_thread: threading.Thread | None = None
_complained: set[type[BaseException]] = set()


def incr(name: str, number: int, tags: Mapping[str, str]) -> None:
    """
    Add to a counter.

    :param number: how much, 1 or more.
    :param tags: values may be any text.
    """
    _call(partial(_incr, name, number, dict(tags)))


def gauge(name: str, value: float, tags: Mapping[str, str]) -> None:
    """
    Set a gauge.

    :param tags: values may be any text.
    """
    _call(partial(_gauge, name, value, dict(tags)))


def complain(error: BaseException) -> None:
    """Log that a metric could not be sent; once in a process for each kind of fault, as there are many."""
    if type(error) not in _complained:
        _complained.add(type(error))
        log.warning("A metric could not be sent: %s: %s", type(error).__name__, error)


def flush() -> None:
    """Wait until what waits for the thread is sent."""
    _waiting.join()


def _incr(name: str, number: int, tags: dict[str, str]) -> None:
    _stats().incr(name, count=number, tags=_safe(tags))


def _gauge(name: str, value: float, tags: dict[str, str]) -> None:
    _stats().gauge(name, value, tags=_safe(tags))


@cache
def _stats() -> Any:
    from airflow.providers.common.compat.sdk import Stats

    # In a triggerer the Task SDK's Stats is set up by this import alone, which 3.2 makes late or never.
    with contextlib.suppress(ImportError):
        import airflow.sdk.serde  # noqa: F401
    return Stats


def _safe(tags: Mapping[str, str]) -> dict[str, str]:
    return {name: safe(value, LONGEST_TAG.get(name, 40)) for name, value in tags.items()}


def safe(value: str, longest: int) -> str:
    """
    A text that every metrics system takes as the value of a tag.

    Two texts that differ only in what was replaced stay apart by a hash.

    :param longest: characters at most.
    """
    cleaned = _UNSAFE.sub("_", value)
    if cleaned == value and 0 < len(value) <= longest:
        return value
    mark = hashlib.sha256(value.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{cleaned[: longest - 9]}-{mark}"


def _call(send: Callable[[], None]) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        _attempt(send)
        return
    try:
        _start_thread()
        _waiting.put_nowait(send)
    except (queue.Full, RuntimeError) as error:
        # A process that ends, or has too many threads, starts none.
        complain(error)


def _attempt(send: Callable[[], None]) -> None:
    try:
        send()
    except Exception as error:
        complain(error)


def _start_thread() -> None:
    global _thread
    if _thread is None or not _thread.is_alive():
        _thread = threading.Thread(target=_work, name="workflow-metrics", daemon=True)
        _thread.start()


def _work() -> None:
    while True:
        send = _waiting.get()
        _attempt(send)
        _waiting.task_done()


def _after_fork() -> None:
    global _waiting, _thread
    _waiting, _thread = queue.Queue(MOST_WAITING), None


os.register_at_fork(after_in_child=_after_fork)
