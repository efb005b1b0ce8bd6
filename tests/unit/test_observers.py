"""Spans and metrics: what they say, from where, and their limits."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from airflow_provider_workflow import config, inbox_names, observers, options, pytest_plugin
from airflow_provider_workflow.airflow_internals import PARENT_TRACE
from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.errors import InboxPausedError, RateLimitError, WorkflowAPIError
from airflow_provider_workflow.dispatch.run_errors import TargetError
from airflow_provider_workflow.observers import calls, metrics, notify
from tests.unit.dispatch.batching import Function, batches
from tests.unit.documents import ROOT
from tests.unit.fake_clock import FakeClock
from tests.unit.fake_stats import FakeStats
from tests.unit.fakes import api_error
from tests.unit.sensors.tasks import Task, sensor
from tests.unit.workbench import INBOX, Workbench


class Spans:
    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    @property
    def all(self) -> tuple[ReadableSpan, ...]:
        return tuple(self.exporter.get_finished_spans())

    @property
    def names(self) -> list[str]:
        return [span.name for span in self.all]

    def one(self, name: str) -> ReadableSpan:
        (only_span,) = [span for span in self.all if span.name == name]
        return only_span


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    """A tracer is configured, as Airflow or a user does it; there can only be one for a whole process."""
    recorder = Spans()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: recorder.provider)
    pytest_plugin.reset()
    yield recorder
    pytest_plugin.reset()
    recorder.provider.shutdown()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


PAYLOAD = "payload-of-a-customer"
OURS = "messaging.workflow_inbox"
PACKAGE = ROOT / "airflow_provider_workflow"


def test_a_drain_makes_spans_by_the_conventions(bench: Workbench, spans: Spans) -> None:
    bench.put("a", "b")
    bench.ready_dispatcher().drain()

    assert spans.names == ["lease orders", "start_run orders", "start_run orders", "acknowledge orders"]
    lease, start, _, acknowledge = spans.all
    common = {"messaging.system": "workflow_inbox", "messaging.destination.name": INBOX}
    of_call = {
        **common,
        "server.address": "127.0.0.1",
        "server.port": int(bench.service.base_url.rpartition(":")[2]),
        f"{OURS}.lease_id": bench.bodies_of("ack")[0]["lease_id"],
        "messaging.batch.message_count": 2,
    }
    operation, kind = "messaging.operation.name", "messaging.operation.type"
    assert attributes(lease) == {**of_call, operation: "lease", kind: "receive"}
    assert attributes(acknowledge) == {**of_call, operation: "acknowledge", kind: "settle"}
    assert attributes(start) == {
        **common,
        operation: "start_run",
        kind: "process",
        "messaging.message.id": "a",
        f"{OURS}.dag_id": "handle",
        f"{OURS}.run_id": bench.run_id("a"),
        f"{OURS}.outcome": "started",
        f"{OURS}.dead_letter": False,
    }
    assert [span.kind for span in (lease, acknowledge)] == [SpanKind.CLIENT] * 2
    assert start.kind is SpanKind.CONSUMER
    assert {span.status.status_code for span in spans.all} == {StatusCode.UNSET}


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


def test_a_call_that_failed_has_the_type_of_its_error(bench: Workbench, spans: Spans) -> None:
    bench.hook.get_inbox(INBOX)
    bench.service.fault("status", "lease", status=403)
    with pytest.raises(WorkflowAPIError):
        bench.lease()

    span = spans.one("lease orders")
    assert attributes(span)["error.type"].endswith("Error")
    assert "messaging.batch.message_count" not in attributes(span)
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)


def test_a_run_that_existed_and_a_dead_letter_are_marked(bench: Workbench, spans: Spans) -> None:
    bench.allow_dead_letters(after=1)
    bench.supervisor.refuse("a", api_error(400, "value_error"))
    bench.start_before("b")
    bench.put("a", "b")
    bench.ready_dispatcher().drain()

    marks = [
        (fields["messaging.message.id"], fields[f"{OURS}.dag_id"], fields.get(f"{OURS}.outcome"))
        for fields in map(attributes, spans.all)
        if fields.get(f"{OURS}.dead_letter")
    ]
    assert marks == [("a", "dead", "started")]
    outcomes = {
        attributes(span)["messaging.message.id"]: attributes(span).get(f"{OURS}.outcome")
        for span in spans.all
        if span.name == "start_run orders" and attributes(span)[f"{OURS}.dag_id"] == "handle"
    }
    assert outcomes == {"a": None, "b": "existing"}


def test_an_empty_inbox_makes_no_span_and_a_release_makes_one(bench: Workbench, spans: Spans) -> None:
    bench.dispatcher().drain()
    assert spans.names == []

    bench.put("a", "b")
    lease = bench.lease()
    bench.hook.release_messages(bench.inbox_id, lease.lease_id)
    released = attributes(spans.one("release orders"))
    assert released["messaging.operation.type"] == "settle"
    assert released["messaging.batch.message_count"] == 2


def test_ids_and_names_in_a_span_are_escaped(spans: Spans) -> None:
    notify(
        "start_run",
        inbox="orders\n\x1b[31m",
        conn_id="c",
        count=0,
        began_at=1.0,
        message_ids=["a\ud800\n\x00" + "x" * 1000],
        facts={"dag_id": "handle\n"},
    )
    (span,) = spans.all
    fields = attributes(span)
    texts = [span.name, *(text for text in fields.values() if isinstance(text, str))]
    assert all(text.isprintable() and len(text) < 400 for text in texts)


@pytest.mark.parametrize("value", ["off", "false", "anything"])
def test_the_option_switches_spans_off(
    bench: Workbench, spans: Spans, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("AIRFLOW__WORKFLOW__TRACES", value)
    bench.put("a")
    bench.dispatcher().drain()

    assert (bench.supervisor.started, spans.names) == (["a"], [])


def test_without_a_tracer_nothing_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in (trace.NoOpTracerProvider, trace.ProxyTracerProvider):
        monkeypatch.setattr(trace, "get_tracer_provider", provider)
        assert not config.traces()
    monkeypatch.setattr(trace, "get_tracer_provider", TracerProvider)
    assert config.traces()


BROUGHT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow 3.4, which puts a run into the trace that its conf names."""
    for module in (observers, options):
        monkeypatch.setattr(module, "airflow_release", lambda: (3, 4))


def test_a_run_is_a_part_of_the_trace_of_its_task(bench: Workbench, spans: Spans, newer: None) -> None:
    bench.put("a")
    of_task = spans.provider.get_tracer("airflow").start_span("task")
    with trace.use_span(of_task):
        bench.ready_dispatcher().drain()

    context = of_task.get_span_context()
    conf = bench.supervisor.runs["handle", bench.run_id("a")]
    assert conf[PARENT_TRACE].startswith(f"00-{context.trace_id:032x}-{context.span_id:016x}-")
    for name in ("lease orders", "start_run orders"):
        assert spans.one(name).parent.span_id == context.span_id  # type: ignore[union-attr]


def test_a_run_gets_no_trace_without_spans_or_before_airflow_3_4(
    bench: Workbench, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observers, "airflow_release", lambda: (3, 3))
    bench.put("a")
    with trace.use_span(spans.provider.get_tracer("airflow").start_span("task")):
        bench.ready_dispatcher().drain()
    monkeypatch.setattr(observers, "airflow_release", lambda: (3, 4))
    bench.put("b")
    bench.ready_dispatcher().drain()

    assert [PARENT_TRACE in conf for conf in bench.supervisor.runs.values()] == [False, False]


def test_a_sensor_that_starts_no_runs_takes_no_trace(newer: None) -> None:
    with pytest.raises(ValueError, match="trace_context needs trigger_dag_id"):
        sensor(trigger_dag_id=None, acknowledge="manual", trace_context="payload.traceparent")


def test_a_message_brings_its_trace(bench: Workbench, spans: Spans, newer: None) -> None:
    bench.put("a", payload={"traceparent": BROUGHT})
    of_task = spans.provider.get_tracer("airflow").start_span("task")
    with trace.use_span(of_task):
        Task(bench, trace_context="payload.traceparent", deferrable=False).execute()

    assert bench.supervisor.runs["handle", bench.run_id("a")][PARENT_TRACE] == BROUGHT
    start = spans.one("start_run orders")
    assert f"{start.context.trace_id:032x}" == BROUGHT.split("-")[1]
    assert [link.context.span_id for link in start.links] == [of_task.get_span_context().span_id]


OTHER_VERSION = "ff" + BROUGHT[2:]
NO_TRACE = BROUGHT.replace("4bf92f3577b34da6a3ce929d0e0e4736", "0" * 32)
NO_SPAN = BROUGHT.replace("00f067aa0ba902b7", "0" * 16)
LONGER = (f"{BROUGHT}-more", BROUGHT * 10_000)
MALFORMED = (None, 7, [BROUGHT], BROUGHT.upper(), OTHER_VERSION, NO_TRACE, NO_SPAN, *LONGER)


@pytest.mark.parametrize("value", MALFORMED, ids=lambda value: repr(value)[:20])
def test_a_malformed_trace_is_ignored(bench: Workbench, spans: Spans, newer: None, value: Any) -> None:
    bench.put("a", payload={"traceparent": value})
    Task(bench, trace_context="payload.traceparent", deferrable=False).execute()

    assert PARENT_TRACE not in bench.supervisor.runs["handle", bench.run_id("a")]


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
        request.headers.get("Authorization", "").removeprefix("Bearer ") for request in bench.service.requests
    }
    assert len(spans.all) > 8
    for secret in (PAYLOAD, bench.service.client_secret, *tokens - {""}):
        assert secret not in exported


def test_only_the_api_is_imported_and_only_where_spans_are_made() -> None:
    public = {"", ".context", ".trace", ".trace.propagation.tracecontext"}
    imports = re.compile(r"^( *)(?:from|import) opentelemetry([\w.]*)", re.MULTILINE)
    imports_by_path = {path: imports.findall(path.read_text()) for path in PACKAGE.rglob("*.py")}
    assert [path.name for path, lines in imports_by_path.items() if lines] == ["tracing.py"]
    lines = [line for lines_of_path in imports_by_path.values() for line in lines_of_path]
    assert {name for _, name in lines} <= public
    assert all(indent for indent, _ in lines), "not when the module is imported"


WHERE = {"inbox": INBOX, "conn_id": "workflow_default"}


def test_the_page_of_metrics_has_all_of_them() -> None:
    rows = [f"| `{metrics.PREFIX}{name}` | {text} |" for name, text in metrics.COUNTERS.items()]
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    rows += [f"| `{metrics.PREFIX}{name}` | gauge: {text} |" for name, text in metrics.GAUGES.items()]
    rows_of_page = [line for line in page.splitlines() if line.startswith("| `workflow.")]

    assert [line for line in rows_of_page if not line.startswith(f"| `{metrics.RATE_LIMITED}` | ")] == rows
    assert len(rows_of_page) == len(rows) + 1


@pytest.mark.parametrize("dead", [False, True])
def test_a_dispatch_counts_every_message_once(bench: Workbench, fake_stats: FakeStats, dead: bool) -> None:
    bench.put("a", "b")
    bench.dispatcher().drain()
    bench.put("a", "c")
    bench.supervisor.refuse("c", api_error(422))
    if dead:
        bench.allow_dead_letters(after=1)
        bench.supervisor.refuse("dead__c", api_error(422))
    bench.ready_dispatcher().drain()

    assert fake_stats.totals == {"leased": 4, "started": 2, "existing": 1, "acknowledged": 3, "rejected": 1}
    assert fake_stats.tags == [WHERE]


def test_answers_that_ask_for_fewer_calls_are_counted_and_calls_held_back_are_not(
    bench: Workbench, fake_stats: FakeStats, fake_clock: FakeClock
) -> None:
    bench.service.fault("status", "get_inbox", status=429, times=2)
    bench.hook.get_inbox(bench.inbox_id)
    assert fake_stats.totals == {"rate_limited": 2}
    assert fake_stats.tags == [{"conn_id": "workflow_default", "family": "inbox"}]

    never_sent = RateLimitError("made up", status=0, retry_after=100)
    calls.observer("c", "http://a.example")(api.get_inbox("i"), never_sent, 0.0)
    assert fake_stats.totals == {"rate_limited": 2}


@pytest.mark.parametrize(
    ("created", "age"),
    [
        ([], 0.0),
        ([0, 90], 90.0),
        *(([text], 0.0) for text in (None, {}, "yesterday", "2999-01-01T00:00:00Z")),
    ],
)
def test_a_lease_shows_the_age_of_its_oldest_message(
    created: list[Any], age: float, fake_stats: FakeStats, fake_clock: FakeClock
) -> None:
    def created_at_of(seconds_ago: Any) -> Any:
        if not isinstance(seconds_ago, int):
            return seconds_ago
        return datetime.fromtimestamp(fake_clock.now() - seconds_ago, UTC).isoformat()

    observe = calls.observer("c", "http://a.example")
    observe(
        api.lease_messages("i"), {"results": [{"created_at": created_at_of(text)} for text in created]}, 1.0
    )
    observe(api.lease_messages("i"), InboxPausedError("made up", status=409), 1.0)

    ages = [value for name, value, _ in fake_stats.calls if name.endswith(f".{observers.AGE}")]
    assert ages == [pytest.approx(age), 0.0]


def test_a_resumed_sensor_counts_under_the_name_of_the_inbox(bench: Workbench, fake_stats: FakeStats) -> None:
    listener = Task(bench)
    deferral = listener.execute()
    bench.put("a")
    event = listener.leased()
    pytest_plugin.reset()
    fake_stats.calls.clear()
    listener.resume(deferral, event)

    assert (fake_stats.totals["started"], fake_stats.totals["acknowledged"]) == (1, 1)
    assert fake_stats.tags == [WHERE]


def test_nothing_is_told_where_nothing_happened(
    fake_stats: FakeStats, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        observers.notify("leased", inbox=INBOX, conn_id="c", count=0)
    observe = calls.observer("c", "http://a.example")
    observe(api.list_inboxes(), {"results": [], "name": "no inbox"}, 0.0)
    observe(api.get_inbox("i"), {"id": "i", "name": "orders", "results": 5}, 0.0)

    assert (fake_stats.calls, inbox_names.name_of("i", "c")) == ([], "orders")


def test_no_connection_names_the_inbox_of_another_one() -> None:
    for conn_id, name in (("a", "orders"), ("b", "invoices")):
        calls.observer(conn_id, "http://a.example")(api.get_inbox("i"), {"id": "i", "name": name}, 0.0)

    assert [inbox_names.name_of("i", conn_id) for conn_id in ("a", "b", "c")] == ["orders", "invoices", "i"]


def test_the_names_of_inboxes_are_limited_and_those_in_use_are_kept() -> None:
    observe = calls.observer("c", "http://a.example")
    observe(api.get_inbox("mine"), {"id": "mine", "name": "orders"}, 0.0)
    for start in range(0, 3 * inbox_names.MAX_NAMES, 1000):
        inboxes = [{"id": str(start + number), "name": "x" * 5000} for number in range(1000)]
        observe(api.list_inboxes(), {"results": inboxes}, 0.0)
        assert inbox_names.name_of("mine", "c") == "orders"

    assert len(inbox_names.NAMES) == inbox_names.MAX_NAMES == 10_000
    assert inbox_names.name_of("0", "c") == "0"
    assert inbox_names.name_of(inboxes[-1]["id"], "c") == "x" * 100


@pytest.mark.parametrize(
    ("option", "name"),
    [("observers", "[workflow] observers"), ("traces", f"{observers.__name__}.tracing.observe")],
)
def test_an_option_that_cannot_be_read_fails_nothing_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch,
    fake_stats: FakeStats,
    caplog: pytest.LogCaptureFixture,
    option: str,
    name: str,
) -> None:
    pytest_plugin.reset()
    unreadable = ValueError("'%' must be followed by '%' or '('")
    monkeypatch.setattr(config, option, Mock(side_effect=unreadable))
    for _ in range(3):
        notify("leased", inbox="orders", conn_id="c", message_ids=["a"])

    assert caplog.text.count(f"The observer {name} failed: ValueError") == 1
    assert fake_stats.totals == {"leased": 3}
