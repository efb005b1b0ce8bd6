"""
Observers are told what happens to the messages of inboxes: metrics, spans of OpenTelemetry, and your own.

An observer is a function that is called with each :class:`Event`; ``[workflow] observers`` names those of
users. It cannot fail a task: what it raises is logged, once in a process for each type of error. It must not
block, as it is called in event loops too.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_provider_workflow import airflow_internals, clock, config
from airflow_provider_workflow.airflow_internals import airflow_release
from airflow_provider_workflow.text import plain, safe

if TYPE_CHECKING:
    from airflow_provider_workflow.client.call import Call
    from airflow_provider_workflow.client.exchange import Observer

log = logging.getLogger(__name__)

METRICS = f"{__name__}.send_metrics"
SPANS = f"{__name__}.tracing.observe"
CURRENT = f"{__name__}.tracing.current_context"
CALLS = {
    "lease_messages": "leased",
    "acknowledge_messages": "acknowledged",
    "release_messages": "released",
}
NAMING = ("get_inbox", "list_inboxes", "ensure_inbox", "create_inbox")
"""Calls whose answers have the names of inboxes."""
AGE = "oldest_message_age"
"""Fact of a lease: seconds since the oldest of its messages was created; 0 if there is none."""
ACTIVE = "active"
"""Fact of a source: 0 while a watcher finds it paused by the service or unusable, else 1."""
PORTS = {"http": 80, "https": 443}
PREFIX = "workflow.inbox."
COUNTERS = {
    "leased": "messages leased; a redelivered message counts again",
    "started": "messages whose DAG run was started",
    "existing": "redelivered messages that found their DAG run",
    "repeated": "messages with the business key of another message, whose DAG run they found",
    "without_key": "messages without a business key, each of which is started by its own id",
    "rejected": (
        "messages that Airflow, the schema, an expression or the function of a batch rejected,"
        " or that a watcher could not put into an asset event"
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
GAUGES = {
    AGE: "seconds since the oldest message of the last lease was created; 0 if there was none",
    ACTIVE: "0 while a notice trigger finds the inbox paused by the service, missing or unusable; else 1",
}
"""Gauges of an inbox by the fact of an event that they show; ``docs/metrics.md`` has the same text."""
NAMES: OrderedDict[tuple[str, str], str] = OrderedDict()
"""
The names of inboxes that this process knows, those that were used last at the end. By the ids of connection
and inbox: services may use the same ids, and none names the inbox of another one.
"""
MAX_NAMES = 10_000
MAX_NAME = 100
"""Characters of a name (docs/service.md 2.1); of a longer one the rest is cut off."""
_warned: set[tuple[str, type[BaseException]]] = set()
_imported = cache(resolve_name)


@dataclass(frozen=True)
class Event:
    """
    Something that happened to messages of an inbox. It has ids, names and numbers, and never a payload.

    :param what: what is counted, such as ``leased`` or ``started`` (``docs/metrics.md``); ``start_run`` or
        ``process`` for an attempt; ``source`` for the state of an inbox.
    :param inbox: name of the inbox, or its id if this process does not know the name.
    :param conn_id: id of the Airflow connection.
    :param count: number of messages that are counted; 0 for an attempt, and for a call that failed or had no
        effect.
    :param began_at: when an attempt or a call began, in epoch seconds.
    :param message_ids: its messages.
    :param lease_id: their lease, where it is known.
    :param error: what it failed with. Its text may quote a message.
    :param trace_context: that of its message, in W3C's form.
    :param facts: more: ``dag_id``, ``run_id``, ``outcome``, ``server.address`` ...
    """

    what: str
    inbox: str
    conn_id: str
    count: int = 1
    began_at: float = 0.0
    message_ids: Sequence[str] = ()
    lease_id: str | None = None
    error: BaseException | None = None
    trace_context: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


def tell(what: str, *, inbox: str, conn_id: str, count: int = 1, **more: Any) -> None:
    """
    Tell all observers that something happened.

    :param inbox: id or name.
    :param count: nothing is told for 0, unless ``began_at`` is given.
    :param more: the other fields of the ``Event``.
    """
    if count < 1 and "began_at" not in more:
        return
    event = Event(what, name_of(inbox, conn_id), conn_id, count, **more)
    paths = [METRICS]
    try:
        paths += [*([SPANS] if config.traces() else []), *config.observers()]
    except Exception as error:  # whatever Airflow's configuration raises for a value
        _warn("[workflow]", error)
    for path in paths:
        try:
            _imported(path)(event)
        except Exception as error:
            _warn(path, error)


@contextmanager
def attempt(what: str, *, facts: dict[str, Any], **more: Any) -> Iterator[None]:
    """
    Tell all observers of an attempt when it is over, with its error if it failed.

    :param facts: about it; further ones may be added meanwhile.
    :param more: see ``tell``.
    """
    began_at, error = clock.now(), None
    try:
        yield
    except BaseException as failure:
        error = failure
        raise
    finally:
        tell(what, count=0, began_at=began_at, facts=facts, error=error, **more)


def trace_context() -> str | None:
    """The trace context of this task, in W3C's form; None without spans, or if Airflow cannot pass it on."""
    try:
        if airflow_release() < (3, 4) or not config.traces():
            return None
        return str(_imported(CURRENT)()) or None
    except Exception as error:
        _warn(CURRENT, error)
        return None


def name_of(inbox: str, conn_id: str) -> str:
    """
    The name of an inbox if this process knows it, else its id; escaped.

    :param inbox: id or name.
    :param conn_id: id of the Airflow connection.
    """
    if (name := NAMES.get((conn_id, inbox))) is None:
        return plain(inbox)
    remember_name(inbox, conn_id, name)
    return plain(name)


def remember_name(inbox_id: str, conn_id: str, name: str) -> None:
    """Let logs, metrics and spans show an inbox by this name, unless 10,000 others are used later."""
    NAMES[conn_id, inbox_id] = name[:MAX_NAME]
    # Neither fails if another thread does the same.
    with suppress(KeyError):
        NAMES.move_to_end((conn_id, inbox_id))
        while len(NAMES) > MAX_NAMES:
            NAMES.popitem(last=False)


def _warn(observer: str, error: BaseException) -> None:
    """
    Log that an observer failed, without the text of the error, which may quote a message.

    :param observer: path of the observer.
    """
    key = observer, type(error)
    if key not in _warned:
        _warned.add(key)
        log.warning("The observer %s failed: %s", observer, type(error).__name__)


# Metrics


def send_metrics(event: Event) -> None:
    """Send the metrics of an event, if it has any, through Airflow's Stats."""
    tags = {"inbox": safe(event.inbox), "conn_id": safe(event.conn_id)}
    if event.what in COUNTERS and event.count:
        airflow_internals.stats().incr(PREFIX + event.what, event.count, tags=tags)
    elif event.what == "rate_limited":
        tags = {"conn_id": tags["conn_id"], "family": event.facts["family"]}
        airflow_internals.stats().incr(RATE_LIMITED, 1, tags=tags)
    for name in GAUGES.keys() & event.facts.keys():
        airflow_internals.stats().gauge(PREFIX + name, event.facts[name], tags=tags)


# What calls of the service mean


def observer(conn_id: str, base_url: str) -> Observer:
    """
    A callback that tells observers the outcome of each attempt of a call.

    :param conn_id: id of the Airflow connection.
    :param base_url: of the service.
    """
    url = urlsplit(base_url)
    port = url.port or PORTS.get(url.scheme, 0)
    server = {"server.address": url.hostname or "", "server.port": port}

    def observe(call: Call[Any], outcome: Any, began_at: float) -> None:
        from airflow_provider_workflow.client.errors import RateLimitError

        error = outcome if isinstance(outcome, Exception) else None
        answer = outcome if error is None else {}
        if isinstance(error, RateLimitError) and error.status == 429:
            tell("rate_limited", inbox="", conn_id=conn_id, facts={"family": call.family.value})
        if call.name in NAMING and error is None:
            for inbox in filter(None, answer["results"] if call.name == "list_inboxes" else [answer]):
                if isinstance(name := inbox.get("name"), str) and name:
                    remember_name(inbox["id"], conn_id, name)
        elif call.name in CALLS:
            source = {"inbox": call.path.split("/")[2], "conn_id": conn_id}
            tell_of = _tell_of_lease if call.name == "lease_messages" else _tell_of_end
            tell_of(call, answer, error, **source, began_at=began_at, facts=server)

    return observe


def _tell_of_lease(
    _call: Call[Any],
    answer: Mapping[str, Any],
    error: Exception | None,
    facts: dict[str, Any],
    **about: Any,
) -> None:
    from airflow_provider_workflow.client.errors import InboxPausedError

    messages = answer.get("results") or ()
    if error is None or isinstance(error, InboxPausedError):  # a paused inbox has no messages
        error = None
        moments = [clock.moment_of(message.get("created_at")) for message in messages]
        ages = [clock.now() - moment.timestamp() for moment in moments if moment is not None]
        facts = {**facts, AGE: max([0.0, *ages])}
    ids = [str(message.get("id")) for message in messages]
    about = {**about, "message_ids": ids, "facts": facts}
    tell("leased", count=len(messages), lease_id=answer.get("lease_id"), error=error, **about)


def _tell_of_end(call: Call[Any], answer: Mapping[str, Any], error: Exception | None, **about: Any) -> None:
    from airflow_provider_workflow.client.errors import LeaseExpiredError

    what, body, results = CALLS[call.name], call.json or {}, answer.get("results") or ()
    named = body.get("message_ids") or [str(done.get("id")) for done in results]
    message_ids = list(dict.fromkeys(named))
    about = {**about, "message_ids": message_ids, "lease_id": body.get("lease_id"), "error": error}
    tell(what, count=len(results), **about)
    if what == "acknowledged" and (error is None or isinstance(error, LeaseExpiredError)):
        # A lease may be acknowledged as a whole, without ids.
        missing = max(len(message_ids), 1 if error else 0) - len(results)
        tell("lease_expired", inbox=about["inbox"], conn_id=about["conn_id"], count=missing)
