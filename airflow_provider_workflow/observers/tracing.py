"""
The observer that makes spans of OpenTelemetry: leases, started runs, batches, acknowledgements and releases.

Names and attributes follow OpenTelemetry's conventions for messaging. Only its API is used, and only where
``config.traces()`` has found a tracer: Airflow's, or the user's own. A message brings no trace context, so
spans are children of the current one (of the task or the trigger) and link to the span of their lease. The
link survives the hand-off from a trigger to its task.

Spans contain ids, names and numbers: never a payload, a token, or the text of an error, which may quote the
message.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow import __version__, clock
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.observers import SPANS, Event, warn

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

SYSTEM = "workflow_inbox"
"""The attribute ``messaging.system``; attributes of our own begin with ``messaging.workflow_inbox``."""
MOST_LEASES = 1000
"""Leases whose spans can be linked to; the oldest one is forgotten first."""
TYPES = {
    "lease": "receive",
    "acknowledge": "settle",
    "release": "settle",
    "start_run": "process",
    "process": "process",
}
"""The attempts that have a span, with their ``messaging.operation.type``."""


@dataclass(frozen=True)
class _Lease:
    """
    :param context: of the span of the lease.
    :param message_ids: the leased messages.
    """

    context: SpanContext
    message_ids: frozenset[str]


_leases: OrderedDict[str, _Lease] = OrderedDict()


def observe(event: Event) -> None:
    """Make the span of an attempt, from its beginning until now."""
    if event.what not in TYPES:
        return
    from opentelemetry import trace

    kind = trace.SpanKind.CONSUMER if TYPES[event.what] == "process" else trace.SpanKind.CLIENT
    span = trace.get_tracer("airflow_provider_workflow", __version__).start_span(
        f"{event.what} {plain(event.inbox)}",
        kind=kind,
        attributes=_attributes(event),
        links=[trace.Link(lease.context) for lease in _leases_of(event)],
        start_time=_nanoseconds(event.began_at),
    )
    if event.error is not None:
        span.set_attribute("error.type", type(event.error).__name__)
        span.set_status(trace.StatusCode.ERROR)
    elif event.what == "lease":
        _remember(str(event.lease_id), span.get_span_context(), event.message_ids)
    span.end(_nanoseconds(max(clock.now(), event.began_at)))


def _attributes(event: Event) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "messaging.system": SYSTEM,
        "messaging.operation.name": event.what,
        "messaging.operation.type": TYPES[event.what],
        "messaging.destination.name": plain(event.inbox),
    }
    for name, fact in event.facts.items():
        key = name if "." in name else f"messaging.{SYSTEM}.{name}"
        attributes[key] = plain(fact) if isinstance(fact, str) else fact
    if event.what == "start_run":
        attributes["messaging.message.id"] = plain(event.message_ids[0])
    elif event.message_ids:
        attributes["messaging.batch.message_count"] = len(event.message_ids)
    return attributes


def _leases_of(event: Event) -> list[_Lease]:
    """The lease of the messages of an event, or the latest one with one of them; none if it is not known."""
    if event.what == "lease":
        return []
    if event.lease_id is not None:
        return [_leases[event.lease_id]] if event.lease_id in _leases else []
    message_ids = frozenset(event.message_ids)
    return [lease for lease in reversed(tuple(_leases.values())) if lease.message_ids & message_ids][:1]


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)


def _remember(lease_id: str, context: SpanContext, message_ids: Collection[str]) -> None:
    _leases[lease_id] = _Lease(context, frozenset(message_ids))
    while len(_leases) > MOST_LEASES:
        _leases.popitem(last=False)


# The hand-off from a trigger to its task


def hand_off(lease_id: str) -> dict[str, str]:
    """The trace context of the span of a lease, as W3C headers; empty if there is none."""
    carrier: dict[str, str] = {}
    try:
        from opentelemetry.trace import NonRecordingSpan, set_span_in_context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        if (lease := _leases.get(lease_id)) is not None:
            context = set_span_in_context(NonRecordingSpan(lease.context))
            TraceContextTextMapPropagator().inject(carrier, context)
    except Exception as error:
        warn(SPANS, error)
    return carrier


def take_over(lease_id: str, message_ids: Collection[str], carrier: Mapping[str, str]) -> None:
    """
    Remember the span of a lease that a trigger handed off.

    :param carrier: what ``hand_off`` returned.
    """
    try:
        from opentelemetry.trace import get_current_span
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        context = get_current_span(TraceContextTextMapPropagator().extract(carrier)).get_span_context()
        if context.is_valid:
            _remember(lease_id, context, message_ids)
    except Exception as error:
        warn(SPANS, error)
