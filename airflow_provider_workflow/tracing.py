"""
Spans of OpenTelemetry: leases, started runs, batches, acknowledgements and releases.

Names and attributes follow OpenTelemetry's conventions for messaging. Only its API is used, and only where
``config.traces()`` has found a tracer: Airflow's, or the user's own. A message brings no trace context, so
spans are children of the current one (of the task or the trigger) and link to the span of their lease. The
link survives the hand-off from a trigger to its task.

Spans contain ids, names and numbers: never a payload, a token, or the text of an error, which may quote the
message. No function here raises an error of its own.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from urllib.parse import urlsplit

from airflow_provider_workflow import __version__, clock, metrics
from airflow_provider_workflow.client.wire import plain

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Tracer

    from airflow_provider_workflow.client.attempt import Observer
    from airflow_provider_workflow.client.call import Call
    from airflow_provider_workflow.client.settings import Settings

log = logging.getLogger(__name__)

T = TypeVar("T")
P = ParamSpec("P")

SYSTEM = "workflow_inbox"
"""The attribute ``messaging.system``; attributes of our own begin with ``messaging.workflow_inbox``."""
MOST_LEASES = 1000
"""Leases whose spans can be linked to; the oldest one is forgotten first."""
_CALLS = {
    "lease_messages": ("lease", "receive"),
    "acknowledge_messages": ("acknowledge", "settle"),
    "release_messages": ("release", "settle"),
}
"""Calls that are traced, with ``messaging.operation.name`` and ``messaging.operation.type``."""


@dataclass(frozen=True)
class _Lease:
    """
    :param context: of the span of the lease.
    :param message_ids: the leased messages.
    """

    context: SpanContext
    message_ids: frozenset[str]


_leases: OrderedDict[str, _Lease] = OrderedDict()
_warned: set[type[BaseException]] = set()


# Calls of the service


def observer(settings: Settings, observe: Observer) -> Observer:
    """
    An observer of a client's calls that makes a span of each attempt to lease, acknowledge or release.

    A lease without messages has no span: an idle inbox is polled again and again.

    :param settings: the connection, for the host and the port.
    :param observe: called first.
    """
    server = _server(settings.base_url)

    def traced(call: Call[Any], outcome: Any, began_at: float) -> None:
        observe(call, outcome, began_at)
        if call.name in _CALLS:
            with _harmless():
                _record(call, outcome, began_at, server)

    return traced


def _record(call: Call[Any], outcome: Any, began_at: float, server: Mapping[str, Any]) -> None:
    from opentelemetry.trace import SpanKind

    error = outcome if isinstance(outcome, Exception) else None
    operation, kind = _CALLS[call.name]
    given = call.json or {}
    if kind == "receive":
        ids = [] if error else [str(each.get("id")) for each in outcome.get("results") or ()]
        if not ids and (error is None or _is_paused(error)):
            return
        links = []
    else:
        ids = list(given.get("message_ids") or (() if error else outcome.get("results") or ()))
        links = _links([_leases.get(str(given.get("lease_id")))])
    attributes = {**_attributes(operation, kind, call.path.split("/")[2]), **server}
    if ids:
        attributes["messaging.batch.message_count"] = len(ids)
    span = _start(attributes, SpanKind.CLIENT, links, began_at)
    if error is not None:
        _mark(span, error)
    elif kind == "receive":
        _remember(str(outcome.get("lease_id")), span.get_span_context(), ids)
    span.end(_nanoseconds(max(clock.now(), began_at)))


def _is_paused(error: Exception) -> bool:
    from airflow_provider_workflow.client.errors import InboxPausedError

    return isinstance(error, InboxPausedError)


def _server(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    found = {"server.address": parts.hostname, "server.port": port}
    return {name: value for name, value in found.items() if value is not None}


# The work of a task


def start_run(start: Callable[[], T], dag_id: str, run_id: str, conf: Mapping[str, Any]) -> T:
    """
    Start a run within a span.

    :param start: called once, whatever happens to the span; its result has the outcome as ``value``.
    :param conf: of the run: of a message, or of a dead letter.
    :return: what ``start`` returned.
    """
    span = None
    with _harmless():
        from opentelemetry.trace import SpanKind

        attributes = _attributes("start_run", "process", str(conf["inbox_id"]))
        message = conf.get("message")
        message_id = str(message["id"] if message else conf["message_id"])
        attributes["messaging.message.id"] = plain(message_id)
        attributes[f"messaging.{SYSTEM}.dag_id"] = plain(dag_id)
        attributes[f"messaging.{SYSTEM}.run_id"] = plain(run_id)
        attributes[f"messaging.{SYSTEM}.dead_letter"] = message is None
        span = _start(attributes, SpanKind.CONSUMER, _links(_leases_of([message_id])))
    outcome = _within(span, start)
    if span is not None:
        with _harmless():
            span.set_attribute(f"messaging.{SYSTEM}.outcome", str(getattr(outcome, "value", outcome)))
            span.end()
    return outcome


def process(inbox: str, message_ids: Collection[str], work: Callable[[], T]) -> T:
    """
    Process a batch within a span, which is the parent of the spans that the work makes.

    :param inbox: id or name.
    :param message_ids: of the batch.
    :param work: called once, whatever happens to the span.
    :return: what ``work`` returned.
    """
    span = None
    with _harmless():
        from opentelemetry.trace import SpanKind

        attributes = _attributes("process", "process", inbox)
        attributes["messaging.batch.message_count"] = len(message_ids)
        span = _start(attributes, SpanKind.CONSUMER, _links(_leases_of(message_ids)))
    result = _within(span, work)
    if span is not None:
        with _harmless():
            span.end()
    return result


def _within(span: Span | None, work: Callable[[], T]) -> T:
    """Work with a span as the current one; if the work raises, the span ends with the type of the error."""
    if span is None:
        return work()
    context = None
    with _harmless():
        from opentelemetry import trace

        context = trace.set_span_in_context(span)
    try:
        with _attached(context):
            return work()
    except BaseException as error:
        with _harmless():
            _mark(span, error)
            span.end()
        raise


@contextmanager
def _attached(context: Context | None) -> Iterator[None]:
    """Make a context of OpenTelemetry the current one, if there is one."""
    token = None
    with _harmless():
        from opentelemetry.context import attach, detach

        token = None if context is None else attach(context)
    try:
        yield
    finally:
        if token is not None:
            with _harmless():
                detach(token)


# The hand-off from a trigger to its task


def hand_off(lease_id: str) -> dict[str, str]:
    """The trace context of the span of a lease, as W3C headers; empty if there is none."""
    carrier: dict[str, str] = {}
    with _harmless():
        from opentelemetry.trace import NonRecordingSpan, set_span_in_context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        if (lease := _leases.get(lease_id)) is not None:
            context = set_span_in_context(NonRecordingSpan(lease.context))
            TraceContextTextMapPropagator().inject(carrier, context)
    return carrier


def take_over(lease_id: str, message_ids: Collection[str], carrier: Mapping[str, str]) -> None:
    """
    Remember the span of a lease that a trigger handed off.

    :param carrier: what ``hand_off`` returned.
    """
    with _harmless():
        from opentelemetry.trace import get_current_span
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        context = get_current_span(TraceContextTextMapPropagator().extract(carrier)).get_span_context()
        if context.is_valid:
            _remember(lease_id, context, message_ids)


# The parts of a span


def _attributes(operation: str, kind: str, inbox: str) -> dict[str, Any]:
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
        "messaging.destination.name": plain(metrics.name_of(inbox)),
    }


def _start(
    attributes: dict[str, Any], kind: SpanKind, links: list[Link], began_at: float | None = None
) -> Span:
    name = f"{attributes['messaging.operation.name']} {attributes['messaging.destination.name']}"
    start = None if began_at is None else _nanoseconds(began_at)
    return _tracer().start_span(name, kind=kind, attributes=attributes, links=links, start_time=start)


def _tracer() -> Tracer:
    from opentelemetry import trace

    return trace.get_tracer("airflow_provider_workflow", __version__)


def _mark(span: Span, error: BaseException) -> None:
    """Set the status of a span to failed, with the type of the error and nothing of its text."""
    from opentelemetry.trace import StatusCode

    span.set_attribute("error.type", type(error).__name__)
    span.set_status(StatusCode.ERROR)


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)


def _remember(lease_id: str, context: SpanContext, message_ids: Collection[str]) -> None:
    _leases[lease_id] = _Lease(context, frozenset(message_ids))
    while len(_leases) > MOST_LEASES:
        _leases.popitem(last=False)


def _leases_of(message_ids: Collection[str]) -> list[_Lease]:
    """The latest lease with one of these messages, if its span is known."""
    wanted = frozenset(message_ids)
    latest = (each for each in reversed(tuple(_leases.values())) if each.message_ids & wanted)
    return [*islice(latest, 1)]


def _links(leases: Collection[_Lease | None]) -> list[Link]:
    from opentelemetry.trace import Link

    return [Link(each.context) for each in leases if each is not None]


@contextmanager
def _harmless() -> Iterator[None]:
    """Log an error of tracing, once in a process for each type, instead of raising it."""
    try:
        yield
    except Exception as error:
        if type(error) not in _warned:
            _warned.add(type(error))
            log.warning("A span could not be made: %s", type(error).__name__)
