"""What a span never contains, when there is none, and what a collector receives."""

from __future__ import annotations

import ast

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from airflow_provider_workflow import config, pytest_plugin
from tests.posts import SPANS, kept_posts
from tests.unit.batching import Function, batches
from tests.unit.documents import ROOT
from tests.unit.fakes import api_error
from tests.unit.spans import Spans, attributes, spans
from tests.unit.workbench import Workbench

__all__ = ["spans"]

PACKAGE = ROOT / "airflow_provider_workflow"
PAYLOAD = "payload-of-a-customer"


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


def test_ids_and_names_are_escaped(bench: Workbench, spans: Spans) -> None:
    strange = "a\ud800\n\x00" + "x" * 1000
    bench.put(strange)
    bench.dispatcher().drain(bench.lease())

    shown = attributes(spans.one("start_run orders"))["messaging.message.id"]
    assert shown.isprintable()
    assert len(shown) < 400


@pytest.mark.parametrize("value", ["off", "false", "anything"])
def test_the_option_switches_spans_off(
    bench: Workbench, spans: Spans, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("AIRFLOW__WORKFLOW__TRACES", value)
    bench.put("a")
    bench.dispatcher().drain()

    assert bench.supervisor.started == ["a"]
    assert spans.names == []


def test_without_a_tracer_nothing_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not config.traces()
    monkeypatch.setattr(trace, "get_tracer_provider", trace.NoOpTracerProvider)
    assert not config.traces()
    monkeypatch.setattr("sys.modules", {})
    assert not config.traces()


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


# A collector


def test_a_collector_receives_the_spans_without_payloads(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kept_posts() as collector:
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(collector.url + SPANS)))
        monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
        pytest_plugin.reset()
        bench.put("a\ud800", payload=PAYLOAD)
        bench.dispatcher().drain(bench.lease())
        provider.shutdown()

    names = [span.name for span in collector.spans()]
    assert names == ["lease orders", "start_run orders", "acknowledge orders"]
    assert PAYLOAD.encode() not in b"".join(collector.bodies())
