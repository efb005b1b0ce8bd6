"""Tracing: spans, links and baggage, and their limits."""

from __future__ import annotations

import ast

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from airflow_provider_workflow.dispatch.run_errors import TargetError
from tests.unit.batching import Function, batches
from tests.unit.documents import ROOT
from tests.unit.fakes import api_error
from tests.unit.spans import Spans, attributes, spans
from tests.unit.workbench import INBOX, Workbench

__all__ = ["spans"]


PAYLOAD = "payload-of-a-customer"
OURS = "messaging.workflow_inbox"


def test_a_drain_makes_spans_by_the_conventions(bench: Workbench, spans: Spans) -> None:
    bench.put("a", "b")
    bench.ready_dispatcher().drain()

    assert spans.names == ["lease orders", "start_run orders", "start_run orders", "acknowledge orders"]
    lease, start, _, acknowledge = spans.all
    port = int(bench.service.base_url.rpartition(":")[2])
    common = {"messaging.system": "workflow_inbox", "messaging.destination.name": INBOX}
    lease_id = bench.sent("ack")[0]["lease_id"]
    server = {"server.address": "127.0.0.1", "server.port": port}
    assert attributes(lease) == {
        **common,
        **server,
        "messaging.operation.name": "lease",
        "messaging.operation.type": "receive",
        f"{OURS}.lease_id": lease_id,
        "messaging.batch.message_count": 2,
    }
    assert attributes(start) == {
        **common,
        "messaging.operation.name": "start_run",
        "messaging.operation.type": "process",
        "messaging.message.id": "a",
        f"{OURS}.dag_id": "handle",
        f"{OURS}.run_id": bench.run_id("a"),
        f"{OURS}.outcome": "started",
        f"{OURS}.dead_letter": False,
    }
    assert attributes(acknowledge) == {
        **common,
        **server,
        "messaging.operation.name": "acknowledge",
        "messaging.operation.type": "settle",
        f"{OURS}.lease_id": lease_id,
        "messaging.batch.message_count": 2,
    }
    assert [span.kind for span in (lease, start, acknowledge)] == [
        SpanKind.CLIENT,
        SpanKind.CONSUMER,
        SpanKind.CLIENT,
    ]
    assert {span.status.status_code for span in spans.all} == {StatusCode.UNSET}
    assert all(span.start_time <= span.end_time for span in spans.all)  # type: ignore[operator]


def test_a_rejected_run_has_the_type_of_its_error(bench: Workbench, spans: Spans) -> None:
    bench.put("a")
    bench.supervisor.refuse("a", api_error(400, "value_error"))
    with pytest.raises(TargetError):
        bench.dispatcher().drain(bench.lease())

    rejected = spans.one("start_run orders")
    assert attributes(rejected)["error.type"] in {"RunRejected", "TargetError"}
    assert rejected.status.status_code is StatusCode.ERROR
    assert f"{OURS}.outcome" not in attributes(rejected)
    assert rejected.events == ()


PACKAGE = ROOT / "airflow_provider_workflow"


def test_no_span_contains_a_payload_or_a_secret(bench: Workbench, spans: Spans) -> None:
    bench.allow_dead_letters(after=1)
    bench.put("a", "b", "c", payload={"name": PAYLOAD, "big": 1e20})
    bench.supervisor.refuse("b", api_error(400, "value_error", f"On instance: {PAYLOAD}"))
    bench.ready_dispatcher().drain()
    bench.put("d", payload=PAYLOAD)
    with pytest.raises(ValueError, match="cannot read"):
        batches(bench, Function(bad={"d"})).run()

    assert "error.type" in attributes(spans.one("process orders"))
    exported = "".join(span.to_json() for span in spans.all)
    tokens = {
        each.headers.get("Authorization", "").removeprefix("Bearer ") for each in bench.service.requests
    }
    assert len(spans.all) > 8
    for secret in (PAYLOAD, bench.service.client_secret, *tokens - {""}):
        assert secret not in exported


def test_only_the_api_is_imported_and_only_where_spans_are_made() -> None:
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        named = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
        modules = {
            name
            for node in named
            for name in (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [each.name for each in node.names]
            )
            if name.split(".")[0] == "opentelemetry"
        }
        assert path.name == "tracing.py" or not modules
        assert modules <= {
            "opentelemetry",
            "opentelemetry.context",
            "opentelemetry.trace",
            "opentelemetry.trace.propagation.tracecontext",
        }
        at_import = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
        assert "opentelemetry" not in "".join(map(ast.unparse, at_import))
