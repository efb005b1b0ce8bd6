"""A message, its lease, its run and the tasks of the run are one trace in a collector."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.e2e.conftest import ROOT, SETTINGS
from tests.e2e.stage import Inbox, Stage
from tests.posts import SPANS, Posts, post_server
from tools.local_airflow import LocalAirflow

DAGS_FOLDER = Path(__file__).parent / "traced"
OF_SENDER = "4bf92f3577b34da6a3ce929d0e0e4736"
BROUGHT = f"00-{OF_SENDER}-00f067aa0ba902b7-01"

pytestmark = pytest.mark.since(3, 4, "runs in the trace of their message")


@pytest.fixture
def traced_stage(tmp_path: Path) -> Iterator[tuple[Stage, Posts]]:
    """An Airflow that sends its spans to a collector."""
    with post_server() as posts, EmulatorServer() as emulator:
        emulator.open_inbox("shipments")
        settings = SETTINGS | {
            "AIRFLOW__TRACES__OTEL_ON": "True",
            "OTEL_TRACES_EXPORTER": "otlp_proto_http",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": posts.url + SPANS,
            "PYTHONPATH": os.fspath(ROOT),
        }
        connections = {"workflow_default": emulator.connection_json()}
        with LocalAirflow(tmp_path / "airflow", DAGS_FOLDER, connections, settings) as airflow:
            airflow.wait_for_dags(("shipped", "shipped_listener"))
            yield Stage(airflow, emulator), posts


def spans_of(posts: Posts, trace_id: bytes) -> dict[str, Any]:
    return {span.name: span for span in posts.spans() if span.trace_id == trace_id}


def start_of(posts: Posts, message_id: str) -> Any:
    """The span of the start of a message's run."""
    for span in posts.spans():
        attributes = {attribute.key: attribute.value.string_value for attribute in span.attributes}
        if span.name == "start_run shipments" and attributes.get("messaging.message.id") == message_id:
            return span
    return None


def test_a_run_is_a_part_of_the_trace_of_its_lease_or_of_its_sender(traced_stage):
    stage, posts = traced_stage
    shipments = Inbox.open(stage.emulator, "shipments")
    ids = shipments.put({}, {"traceparent": "00-malformed"}, {"traceparent": BROUGHT})
    stage.wait_until_succeeded(shipments, ids, "shipped")
    *own, brought = (
        stage.until(lambda id_=message_id: start_of(posts, id_), "the span of a start") for message_id in ids
    )

    names = {"lease shipments", "acknowledge shipments", "dag_run.shipped", "task_run.shipped"}
    for start in own:
        stage.until(lambda span=start: spans_of(posts, span.trace_id).keys() >= names, f"the spans {names}")
        of_trace = spans_of(posts, start.trace_id)
        parents = {of_trace[name].parent_span_id for name in ("lease shipments", "dag_run.shipped")}
        assert parents == {start.parent_span_id} != {b""}

    assert brought.trace_id.hex() == OF_SENDER
    names -= {"lease shipments", "acknowledge shipments"}
    stage.until(lambda: spans_of(posts, brought.trace_id).keys() >= names, f"the spans {names}")
    # The lease may be one of many messages; a link leads to it.
    (link,) = brought.links
    assert "lease shipments" in spans_of(posts, link.trace_id)
