"""Tracing: spans, links and baggage, and their limits."""

from __future__ import annotations

import ast
import logging

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode

from airflow_provider_workflow import config, pytest_plugin
from airflow_provider_workflow.client.errors import WorkflowAPIError
from airflow_provider_workflow.dispatch.run_errors import TargetError
from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.observers import SPANS as OBSERVER
from airflow_provider_workflow.operators.inbox import WorkflowReleaseOperator
from airflow_provider_workflow.triggers.inbox import lease_of
from tests.posts import SPANS, kept_posts
from tests.unit.batching import Function, batches
from tests.unit.documents import ROOT
from tests.unit.fake_clock import FakeClock
from tests.unit.fakes import api_error
from tests.unit.spans import Spans, attributes, spans
from tests.unit.triggers.loops import fire, trigger
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


def test_spans_are_children_of_the_task_in_all_threads(bench: Workbench, spans: Spans) -> None:
    bench.put(*"abcdefgh")
    dispatcher = bench.ready_dispatcher(lease_limit=2)
    with spans.provider.get_tracer("airflow").start_as_current_span("worker.listener") as task:
        dispatcher.drain()

    ours = [span for span in spans.all if span.name != "worker.listener"]
    assert len(ours) == 4 + 8 + 4
    assert {span.parent.span_id for span in ours if span.parent} == {task.get_span_context().span_id}


def test_a_message_whose_run_exists_has_that_outcome(bench: Workbench, spans: Spans) -> None:
    bench.put("a")
    bench.dispatcher().drain(bench.lease())
    bench.put("a")
    bench.dispatcher().drain()

    outcomes = [attributes(each).get(f"{OURS}.outcome") for each in spans.all if "start" in each.name]
    assert outcomes == ["started", "existing"]


def test_an_empty_inbox_makes_no_span(bench: Workbench, spans: Spans) -> None:
    bench.dispatcher().drain()
    assert spans.names == []

    bench.hook.pause_inbox(INBOX)
    with pytest.raises(Exception, match="paused"):
        bench.dispatcher().drain()
    assert spans.names == []


def test_a_release_is_a_settlement(bench: Workbench, spans: Spans) -> None:
    bench.put("a", "b")
    lease = bench.lease()
    given = {"inbox_id": bench.inbox_id, "lease_id": lease.lease_id, "messages": lease.messages}
    WorkflowReleaseOperator(task_id="release", lease=given).execute({})  # type: ignore[typeddict-item]

    released = spans.one("release orders")
    assert attributes(released)["messaging.operation.type"] == "settle"
    assert attributes(released)["messaging.batch.message_count"] == 2


def test_a_run_of_the_dead_letter_dag_is_marked(bench: Workbench, spans: Spans, clock: ManualClock) -> None:
    bench.allow_dead_letters(after=1)
    bench.supervisor.refuse("a", api_error(400, "value_error"))
    bench.put("a", "b")
    bench.ready_dispatcher().drain()

    by_letter = {attributes(each)[f"{OURS}.dead_letter"]: each for each in spans.all if "start" in each.name}
    assert attributes(by_letter[True])["messaging.message.id"] == "a"
    assert attributes(by_letter[True])[f"{OURS}.dag_id"] == "dead"
    assert attributes(by_letter[True])[f"{OURS}.outcome"] == "started"


def test_each_call_with_a_batch_has_a_span(bench: Workbench, spans: Spans) -> None:
    bench.put("a", "b", "c")
    batches(bench, Function(), lease_limit=2).run()

    processed = [span for span in spans.all if span.name == "process orders"]
    sizes = [attributes(each)["messaging.batch.message_count"] for each in processed]
    assert sum(sizes) == 3
    assert {span.kind for span in processed} == {SpanKind.CONSUMER}


async def test_the_spans_of_a_lease_that_a_trigger_made_have_its_id(
    bench: Workbench, spans: Spans, fake_clock: FakeClock
) -> None:
    bench.put("a")
    with spans.provider.get_tracer("airflow").start_as_current_span("trigger.wait") as waiting:
        event = await fire(trigger())
    lease = lease_of(INBOX, event)
    assert lease is not None
    bench.dispatcher().drain(lease)

    leased = spans.one("lease orders")
    assert leased.parent is not None
    assert leased.parent.span_id == waiting.get_span_context().span_id
    acknowledged = spans.one("acknowledge orders")
    assert {attributes(each)[f"{OURS}.lease_id"] for each in (leased, acknowledged)} == {lease.lease_id}


def test_a_failed_call_has_the_type_of_its_error(bench: Workbench, spans: Spans) -> None:
    bench.put("a")
    bench.service.fault("status", operation="lease", status=403, times=None)
    with pytest.raises(WorkflowAPIError):
        WorkflowHook().lease_messages(INBOX)

    failed = spans.all[-1]
    assert failed.name == "lease orders"
    assert attributes(failed)["error.type"].endswith("Error")
    assert "messaging.batch.message_count" not in attributes(failed)
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.status.description is None
    assert failed.events == ()


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


def test_a_batch_that_fails_has_the_type_of_its_error(bench: Workbench, spans: Spans) -> None:
    bench.put("a", payload=PAYLOAD)
    with pytest.raises(ValueError, match="cannot read"):
        batches(bench, Function(bad={"a"})).run()

    failed = spans.one("process orders")
    assert attributes(failed)["error.type"] == "ValueError"
    assert failed.events == ()
    assert failed.status.description is None


def test_a_tracer_that_fails_hinders_nothing_and_is_logged_once(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def get_tracer(self, *_: object, **__: object) -> object:
            raise RuntimeError(PAYLOAD)

    monkeypatch.setattr(trace, "get_tracer_provider", Broken)
    pytest_plugin.reset()
    bench.put("a", "b")
    with caplog.at_level(logging.WARNING):
        bench.ready_dispatcher().drain()

    assert bench.supervisor.started == ["a", "b"]
    assert bench.states == {}
    said = [record.getMessage() for record in caplog.records if "observer" in record.getMessage()]
    assert said == [f"The observer {OBSERVER} failed: RuntimeError"]


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
