"""
The observer that makes spans of OpenTelemetry: leases, started runs, batches, acknowledgements and releases.

Names and attributes follow OpenTelemetry's conventions for messaging. Only its API is used, and only where
``config.traces()`` has found a tracer: Airflow's, or the user's own. Spans are children of the current one,
of the task or the trigger. That of a run whose message brings a trace context is a part of that trace
instead, and linked to the current span.

Spans contain ids, names and numbers: never a payload, a token, or the text of an error, which may quote the
message.
"""

from __future__ import annotations

from typing import Any

from airflow_provider_workflow import __version__, clock, config
from airflow_provider_workflow.observers import AGE, Event
from airflow_provider_workflow.text import escaped

SYSTEM = "workflow_inbox"
"""The attribute ``messaging.system``; attributes of our own begin with ``messaging.workflow_inbox``."""
OPERATIONS = {
    "leased": ("lease", "receive"),
    "acknowledged": ("acknowledge", "settle"),
    "released": ("release", "settle"),
    "start_run": ("start_run", "process"),
    "process": ("process", "process"),
}
"""The events that have a span: ``messaging.operation.name`` and ``messaging.operation.type``."""


def observe(event: Event) -> None:
    """Make the span of an attempt, from its beginning until now; none for a poll that leased nothing."""
    if event.what not in OPERATIONS or not (event.message_ids or event.error) or not config.traces():
        return
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context, links = None, []
    if event.trace_context is not None:
        context = TraceContextTextMapPropagator().extract({"traceparent": event.trace_context})
        links = [trace.Link(trace.get_current_span().get_span_context())]
    operation, kind = OPERATIONS[event.what]
    span = trace.get_tracer("airflow_provider_workflow", __version__).start_span(
        f"{operation} {escaped(event.inbox)}",
        context,
        kind=trace.SpanKind.CONSUMER if kind == "process" else trace.SpanKind.CLIENT,
        attributes={
            "messaging.system": SYSTEM,
            "messaging.operation.name": operation,
            "messaging.operation.type": kind,
            "messaging.destination.name": escaped(event.inbox),
            **_attributes(event),
        },
        links=links,
        start_time=_nanoseconds(event.began_at),
    )
    if event.error is not None:
        span.set_attribute("error.type", type(event.error).__name__)
        span.set_status(trace.StatusCode.ERROR)
    span.end(_nanoseconds(max(clock.now(), event.began_at)))


def current_context() -> str:
    """The context of the current span, in W3C's form; empty without one."""
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent", "")


def _attributes(event: Event) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    facts = {name: fact for name, fact in event.facts.items() if name != AGE}
    if event.lease_id is not None:
        facts["lease_id"] = event.lease_id
    for name, fact in facts.items():
        key = name if "." in name else f"messaging.{SYSTEM}.{name}"
        attributes[key] = escaped(fact) if isinstance(fact, str) else fact
    if event.what == "start_run":
        attributes["messaging.message.id"] = escaped(event.message_ids[0])
    elif event.message_ids:
        attributes["messaging.batch.message_count"] = len(event.message_ids)
    return attributes


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)
