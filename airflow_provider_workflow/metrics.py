"""
The metrics of this provider, which are sent through Airflow's Stats.

``observer``, which the hook passes to its clients, counts outcomes of calls (leased, acknowledged, released,
rate limited). Other modules count what only they know (runs started, events emitted).

No function here raises, sends a request to the service, or blocks an event loop.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import queue
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow import airflow_internals, clock

if TYPE_CHECKING:
    from airflow_provider_workflow.client.call import Call

log = logging.getLogger(__name__)

LONGEST_TAG = {"inbox": 100, "conn_id": 80}
"""Maximum characters. With InfluxDB tags are part of the name, which may have 250 characters."""
MOST_WAITING = 10_000
"""Maximum number of metrics in the queue of the thread; further ones are dropped."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")

_waiting: queue.Queue[Callable[[], None]] = queue.Queue(MOST_WAITING)
_thread: threading.Thread | None = None
_warned: set[type[BaseException]] = set()


def incr(name: str, number: int, tags: Mapping[str, str]) -> None:
    """
    Add to a counter.

    :param number: 1 or more.
    :param tags: values may be any string.
    """
    _call(partial(_incr, name, number, dict(tags)))


def set_gauge(name: str, value: float, tags: Mapping[str, str]) -> None:
    """
    Set a gauge.

    :param tags: values may be any string.
    """
    _call(partial(_gauge, name, value, dict(tags)))


def complain(error: BaseException) -> None:
    """Log that a metric could not be sent, once in a process for each type of error."""
    if type(error) not in _warned:
        _warned.add(type(error))
        log.warning("A metric could not be sent: %s: %s", type(error).__name__, error)


def flush() -> None:
    """Wait until the thread has sent all queued metrics."""
    _waiting.join()


def _incr(name: str, number: int, tags: dict[str, str]) -> None:
    airflow_internals.stats().incr(name, count=number, tags=_safe(tags))


def _gauge(name: str, value: float, tags: dict[str, str]) -> None:
    airflow_internals.stats().gauge(name, value, tags=_safe(tags))


def _safe(tags: Mapping[str, str]) -> dict[str, str]:
    return {name: safe(value, LONGEST_TAG.get(name, 40)) for name, value in tags.items()}


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
        # The process is exiting, or has too many threads.
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


COUNTER = "counter"
GAUGE = "gauge"
OF_INBOX = ("inbox", "conn_id")


@dataclass(frozen=True)
class Metric:
    """
    One metric.

    :param name: without the prefix that Airflow adds.
    :param kind: ``counter`` or ``gauge``.
    :param says: what it counts or measures; ``docs/metrics.md`` has the same text.
    :param tags: names of its tags.
    """

    name: str
    kind: str
    says: str
    tags: tuple[str, ...] = OF_INBOX


LEASED = Metric("workflow.inbox.leased", COUNTER, "messages leased; a redelivered message counts again")
STARTED = Metric("workflow.inbox.started", COUNTER, "messages whose DAG run was started")
EXISTING = Metric("workflow.inbox.existing", COUNTER, "redelivered messages that found their DAG run")
REFUSED = Metric(
    "workflow.inbox.refused",
    COUNTER,
    "messages whose run Airflow rejected, that an expression or the function of a batch failed on, or that"
    " have no id",
)
NOTICES = Metric("workflow.inbox.rung", COUNTER, "asset events that announce available messages (notices)")
EMITTED = Metric("workflow.inbox.emitted", COUNTER, "messages carried in asset events")
REJECTED = Metric(
    "workflow.inbox.rejected", COUNTER, "messages that a watcher could not put into an asset event"
)
ACKNOWLEDGED = Metric("workflow.inbox.acknowledged", COUNTER, "messages acknowledged: removed from the inbox")
DEAD_LETTERED = Metric(
    "workflow.inbox.dead_lettered", COUNTER, "messages that started a run of the dead-letter DAG"
)
REPLAYED = Metric("workflow.inbox.replayed", COUNTER, "dead letters whose run was started by a replay")
RELEASED = Metric("workflow.inbox.released", COUNTER, "messages released before their lease expired")
LEASE_EXPIRED = Metric(
    "workflow.inbox.lease_expired",
    COUNTER,
    "messages whose lease had expired when they were acknowledged; they are redelivered",
)
QUARANTINED = Metric(
    "workflow.inbox.quarantined", COUNTER, "messages found in quarantine; they start no run any more"
)
RATE_LIMITED = Metric(
    "workflow.rate_limited",
    COUNTER,
    "rate-limit responses (429), per API family",
    ("conn_id", "family"),
)
OLDEST_AGE = Metric(
    "workflow.inbox.oldest_message_age",
    GAUGE,
    "seconds since the oldest message of the last lease was created; 0 if there was none",
)

METRICS = (
    LEASED,
    STARTED,
    EXISTING,
    REFUSED,
    NOTICES,
    EMITTED,
    REJECTED,
    ACKNOWLEDGED,
    DEAD_LETTERED,
    REPLAYED,
    RELEASED,
    LEASE_EXPIRED,
    QUARANTINED,
    RATE_LIMITED,
    OLDEST_AGE,
)
"""All metrics of this provider."""

MOST_NAMES = 10_000
_names: dict[str, str] = {}


def name_of(inbox: str) -> str:
    """
    The name of an inbox if this process knows it, else its id.

    :param inbox: id or name.
    """
    return _names.get(inbox, inbox)


def remember_name(inbox_id: str, name: str) -> None:
    """Remember the name of an inbox, for the tags of its metrics."""
    if len(_names) >= MOST_NAMES:
        _names.clear()
    _names[inbox_id] = name


def count(metric: Metric, number: int, *, inbox: str, conn_id: str) -> None:
    """
    Add to a counter of an inbox.

    :param metric: a counter of ``METRICS``.
    :param number: nothing is sent for 0.
    :param inbox: id or name; the tag is the name if this process knows it.
    :param conn_id: id of the Airflow connection.
    """
    if number > 0:
        incr(metric.name, number, {"inbox": name_of(inbox), "conn_id": conn_id})


def gauge(metric: Metric, value: float, *, inbox: str, conn_id: str) -> None:
    """
    Set a gauge of an inbox.

    :param metric: a gauge of ``METRICS``.
    :param inbox: id or name; the tag is the name if this process knows it.
    :param conn_id: id of the Airflow connection.
    """
    set_gauge(metric.name, value, {"inbox": name_of(inbox), "conn_id": conn_id})


# Metrics of the answers of the service, for all calls through the hook.


def observer(conn_id: str) -> Callable[..., None]:
    """
    A callback that counts the outcome of each attempt of a call: the answer's value, or the exception.

    :param conn_id: id of the Airflow connection.
    :return: the callback, which does not raise.
    """

    def observe(call: Call[Any], outcome: Any, _began_at: float = 0.0) -> None:
        try:
            _observe(conn_id, call, outcome)
        except Exception as error:
            complain(error)

    return observe


def _observe(conn_id: str, call: Call[Any], outcome: Any) -> None:
    from airflow_provider_workflow.client.errors import RateLimitError

    if isinstance(outcome, RateLimitError) and outcome.status == 429:
        incr(RATE_LIMITED.name, 1, {"conn_id": conn_id, "family": call.family.value})
    look = _OF_CALLS.get(call.name)
    if look is not None:
        look(conn_id, call, outcome)


def _leased(conn_id: str, call: Call[Any], outcome: Any) -> None:
    from airflow_provider_workflow.client.errors import InboxPausedError

    if isinstance(outcome, InboxPausedError):
        outcome = {}
    if not isinstance(outcome, Mapping):
        return
    messages = outcome.get("results") or []
    where = {"inbox": _inbox_of(call), "conn_id": conn_id}
    count(LEASED, len(messages), **where)
    now = clock.now()
    gauge(OLDEST_AGE, max((_age(message, now) for message in messages), default=0.0), **where)


def _acknowledged(conn_id: str, call: Call[Any], outcome: Any) -> None:
    from airflow_provider_workflow.client.errors import LeaseExpiredError

    where = {"inbox": _inbox_of(call), "conn_id": conn_id}
    wanted = len(set((call.json or {}).get("message_ids") or ()))
    if isinstance(outcome, LeaseExpiredError):
        count(LEASE_EXPIRED, max(1, wanted), **where)
    elif isinstance(outcome, Mapping):
        done = len(outcome.get("results") or [])
        count(ACKNOWLEDGED, done, **where)
        count(LEASE_EXPIRED, wanted - done, **where)


def _released(conn_id: str, call: Call[Any], outcome: Any) -> None:
    if isinstance(outcome, Mapping):
        done = len(outcome.get("results") or [])
        count(RELEASED, done, inbox=_inbox_of(call), conn_id=conn_id)


def _named(_: str, __: Call[Any], outcome: Any) -> None:
    for inbox in (outcome.get("results") or [outcome]) if isinstance(outcome, Mapping) else ():
        if isinstance(inbox.get("id"), str) and isinstance(name := inbox.get("name"), str) and name:
            remember_name(inbox["id"], name)


_OF_CALLS: dict[str, Callable[[str, Call[Any], Any], None]] = {
    "lease_messages": _leased,
    "acknowledge_messages": _acknowledged,
    "release_messages": _released,
    "get_inbox": _named,
    "list_inboxes": _named,
    "ensure_inbox": _named,
    "create_inbox": _named,
}


def _inbox_of(call: Call[Any]) -> str:
    return call.path.split("/")[2]


def _age(message: Mapping[str, Any], now: float) -> float:
    """Seconds since a message was created; 0 if that time is missing or invalid."""
    try:
        created = datetime.fromisoformat(str(message.get("created_at")).replace("Z", "+00:00"))
    except ValueError:
        return 0.0
    if created.tzinfo is None:
        created = created.replace(tzinfo=UTC)
    return max(0.0, now - created.timestamp())
