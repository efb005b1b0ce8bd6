"""
The observer that sends metrics through Airflow's Stats.

It does not block an event loop: there a thread sends them, one after the other.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache

from airflow_provider_workflow import airflow_internals
from airflow_provider_workflow.observers import METRICS, Event, warn

PREFIX = "workflow.inbox."
COUNTERS = {
    "leased": "messages leased; a redelivered message counts again",
    "started": "messages whose DAG run was started",
    "existing": "redelivered messages that found their DAG run",
    "rejected": (
        "messages whose run Airflow rejected, that an expression or the function of a batch failed on, that"
        " a watcher could not put into an asset event, or that have no id"
    ),
    "notices": "asset events that announce available messages",
    "emitted": "messages carried in asset events",
    "acknowledged": "messages acknowledged: removed from the inbox",
    "dead_lettered": "messages that started a run of the dead-letter DAG",
    "replayed": "dead letters whose run was started by a replay",
    "released": "messages released before their lease expired",
    "lease_expired": "messages whose lease had expired when they were acknowledged; they are redelivered",
    "quarantined": "messages found in quarantine; they start no run any more",
}
"""Counters of an inbox by the event that they count; ``docs/metrics.md`` has the same text."""
RATE_LIMITED = "workflow.rate_limited"
OLDEST_AGE = f"{PREFIX}oldest_message_age"
LONGEST_TAG = {"inbox": 100, "conn_id": 80}
"""Maximum characters. With InfluxDB tags are part of the name, which may have 250 characters."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


def observe(event: Event) -> None:
    """Send the metric of an event, if it has one."""
    tags = {"inbox": event.inbox, "conn_id": event.conn_id}
    if event.what in COUNTERS:
        _send("incr", PREFIX + event.what, event.count, tags)
    elif event.what == "oldest_message_age":
        _send("gauge", OLDEST_AGE, event.facts["seconds"], tags)
    elif event.what == "rate_limited":
        _send("incr", RATE_LIMITED, 1, {"conn_id": event.conn_id, "family": event.facts["family"]})


def safe(value: str, longest: int) -> str:
    """
    A string that every metrics system accepts as the value of a tag.

    If characters are replaced or cut, a hash is added, so that different values stay different.

    :param longest: maximum number of characters.
    """
    cleaned = _UNSAFE.sub("_", value)
    if cleaned == value and 0 < len(value) <= longest:
        return value
    mark = hashlib.sha256(value.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{cleaned[: longest - 9]}-{mark}"


def flush() -> None:
    """Wait until the thread has sent all metrics of this process."""
    _thread(os.getpid()).submit(int).result()


def _send(kind: str, name: str, value: float, tags: Mapping[str, str]) -> None:
    safe_tags = {tag: safe(text, LONGEST_TAG.get(tag, 40)) for tag, text in tags.items()}
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        _send_now(kind, name, value, safe_tags)
    else:
        sending = _thread(os.getpid()).submit(_send_now, kind, name, value, safe_tags)
        sending.add_done_callback(_warn_if_failed)


def _send_now(kind: str, name: str, value: float, tags: Mapping[str, str]) -> None:
    getattr(airflow_internals.stats(), kind)(name, value, tags=tags)


def _warn_if_failed(sending: Future[None]) -> None:
    if (error := sending.exception()) is not None:
        warn(METRICS, error)


@cache
def _thread(process_id: int) -> ThreadPoolExecutor:
    """The thread of a process; that of its parent does not exist in a forked one."""
    return ThreadPoolExecutor(1, f"workflow-metrics-{process_id}")
