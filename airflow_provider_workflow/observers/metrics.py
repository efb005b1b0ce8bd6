"""The observer that sends metrics through Airflow's Stats."""

from __future__ import annotations

from airflow_provider_workflow import airflow_internals
from airflow_provider_workflow.observers import ACTIVE, AGE, Event
from airflow_provider_workflow.text import safe

PREFIX = "workflow.inbox."
COUNTERS = {
    "leased": "messages leased; a redelivered message counts again",
    "started": "messages whose DAG run was started",
    "existing": "redelivered messages that found their DAG run",
    "repeated": "messages with the business key of another message, whose DAG run they found",
    "without_key": "messages without a business key, each of which is started by its own id",
    "rejected": "messages that Airflow, the schema, an expression or the function of a batch rejected",
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
