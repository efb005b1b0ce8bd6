"""Metrics: which are sent, from where, with which tags."""

from __future__ import annotations

import logging
import re
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_workflow import airflow_internals, config, observers, pytest_plugin
from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.errors import InboxPausedError, LeaseExpiredError, RateLimitError
from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.observers import AGE, METRICS, metrics, observer, tell
from tests.unit.counted import Counted, counted
from tests.unit.fake_clock import FakeClock
from tests.unit.fakes import api_error
from tests.unit.sensors.tasks import Task
from tests.unit.workbench import INBOX, Workbench

__all__ = ["counted"]


ROOT = Path(__file__).parents[2]
WHERE = {"inbox": INBOX, "conn_id": "workflow_default"}


def test_the_page_of_metrics_has_all_of_them() -> None:
    rows = [f"| `{metrics.PREFIX}{name}` | {text} |" for name, text in metrics.COUNTERS.items()]
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    *counters, limited, age = (line for line in page.splitlines() if line.startswith("| `workflow."))

    assert counters == rows
    assert limited.startswith(f"| `{metrics.RATE_LIMITED}` | ")
    assert age.startswith(f"| `{metrics.OLDEST_AGE}` | gauge: ")


def test_every_metric_is_told_by_somebody() -> None:
    package = ROOT / "airflow_provider_workflow"
    code = "".join(
        path.read_text(encoding="utf-8") for path in package.rglob("*.py") if path.name != "metrics.py"
    )

    assert [name for name in metrics.COUNTERS if f'"{name}"' not in code] == []


def test_a_dispatch_counts_every_message_once(bench: Workbench, counted: Counted) -> None:
    bench.put("a", "b")
    bench.dispatcher().drain()
    bench.put("a", "c")
    bench.supervisor.refuse("c", api_error(422))
    bench.ready_dispatcher().drain()

    assert counted.totals == {"leased": 4, "started": 2, "existing": 1, "acknowledged": 3, "rejected": 1}
    assert counted.tags == [WHERE]


def test_an_inbox_given_by_its_id_is_counted_under_its_name(bench: Workbench, counted: Counted) -> None:
    bench.put("a")
    bench.hook.get_inbox(bench.inbox_id)
    bench.hook.lease_messages(bench.inbox_id)

    assert counted.tags == [WHERE]


def test_an_inbox_whose_name_was_not_seen_is_counted_under_its_id(bench: Workbench, counted: Counted) -> None:
    bench.put("a")
    bench.hook.lease_messages(bench.inbox_id)

    assert counted.tags == [{**WHERE, "inbox": bench.inbox_id}]


def test_a_resumed_sensor_counts_under_the_name_that_its_trigger_knows(
    bench: Workbench, counted: Counted
) -> None:
    listener = Task(bench)
    deferral = listener.execute()
    bench.put("a")
    event = listener.leased()
    pytest_plugin.reset()
    counted.told.clear()
    listener.resume(deferral, event)

    assert (counted.totals["started"], counted.totals["acknowledged"]) == (1, 1)
    assert counted.tags == [WHERE]


def test_what_is_given_back_is_counted(bench: Workbench, counted: Counted) -> None:
    bench.put("a", "b")
    bench.hook.release_messages(INBOX, bench.lease().lease_id, ["a"])

    assert counted.totals == {"leased": 2, "released": 1}


def test_a_lease_that_ended_before_its_acknowledgement_is_counted(
    bench: Workbench, counted: Counted, clock: ManualClock
) -> None:
    bench.put("a", "b")
    lease = bench.lease()
    bench.supervisor.on_start = lambda: clock.advance(301)
    bench.dispatcher().drain(lease)

    assert counted.totals == {
        "leased": 4,
        "started": 2,
        "lease_expired": 2,
        "existing": 2,
        "acknowledged": 2,
    }


def test_messages_that_an_acknowledgement_does_not_find_are_counted(
    bench: Workbench, counted: Counted
) -> None:
    bench.put("a")
    bench.hook.acknowledge_messages(INBOX, bench.lease().lease_id, ["a", str(UUID(int=0))])

    assert counted.totals == {"leased": 1, "acknowledged": 1, "lease_expired": 1}


def test_every_answer_that_wants_fewer_calls_is_counted(
    connected: Any, bench: Workbench, counted: Counted, fake_clock: FakeClock
) -> None:
    connected.fault("status", operation="lease", status=429, times=2)
    bench.hook.lease_messages(bench.inbox_id)

    assert counted.totals == {"rate_limited": 2}
    assert counted.told[0][2] == {"conn_id": "workflow_default", "family": "inbox"}


def test_a_call_that_a_gate_kept_back_is_no_answer(counted: Counted) -> None:
    never_sent = RateLimitError("made up", status=0, retry_after=100)
    observer("c", "https://a")(api.list_inboxes(), never_sent)

    assert counted.totals == {}


def test_the_age_of_the_oldest_message_is_told_with_each_lease(
    bench: Workbench, counted: Counted, clock: ManualClock, fake_clock: FakeClock
) -> None:
    bench.put("a")
    clock.advance(90)
    bench.put("b")
    fake_clock.set(clock.now())
    bench.hook.lease_messages(INBOX)
    bench.hook.lease_messages(INBOX)

    assert counted.ages == [pytest.approx(90), 0]


def test_a_paused_and_drained_inbox_has_no_oldest_message(bench: Workbench, counted: Counted) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "user")
    with pytest.raises(InboxPausedError):
        bench.hook.lease_messages(INBOX)

    assert counted.ages == [0]


@pytest.mark.parametrize("created_at", [None, 5, "yesterday", "2999-01-01T00:00:00Z"])
def test_a_message_that_does_not_say_when_it_was_created_has_no_age(
    created_at: Any, counted: Counted
) -> None:
    call = api.lease_messages("an-inbox")
    observer("c", "https://a")(call, {"results": [{"id": "a", "created_at": created_at}]})

    assert counted.ages == [0]


def test_a_whole_lease_that_ended_counts_as_one_message_as_nobody_says_how_many(counted: Counted) -> None:
    observer("c", "https://a")(api.acknowledge_messages("i", "l"), LeaseExpiredError("made up", status=400))

    assert counted.totals == {"lease_expired": 1}


def test_nothing_is_told_where_nothing_happened(counted: Counted, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        observers.tell("leased", inbox=INBOX, conn_id="c", count=0)

    assert counted.told == []


HOSTILE = ["a,b=c", "name:1|c\nairflow.other:5", "\ud800\0", "", "x" * 300]


class Wire:
    """A statsd client whose packets stay here."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def incr(self, stat: str, count: int = 1, rate: float = 1) -> None:
        self.sent.append(stat)

    def gauge(self, stat: str, value: float, rate: float = 1, delta: bool = False) -> None:
        self.sent.append(stat)


def statsd_logger(wire: Wire) -> Any:
    """Airflow's own, which puts tags into the name as InfluxDB wants them: the strictest of all."""
    for path in ("airflow.sdk._shared.observability.metrics.statsd_logger", "airflow.metrics.statsd_logger"):
        try:
            module = import_module(path)
        except ImportError:
            continue
        return module.SafeStatsdLogger(wire, influxdb_tags_enabled=True, statsd_influxdb_enabled=True)
    raise AssertionError("this Airflow keeps its statsd logger elsewhere")


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_name_does_not_break_a_metric(monkeypatch: pytest.MonkeyPatch, hostile: str) -> None:
    wire = Wire()
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED", "True")
    monkeypatch.setattr(airflow_internals, "stats", lambda: statsd_logger(wire))
    for name in metrics.COUNTERS:
        tell(name, inbox=hostile, conn_id=hostile)
    tell("leased", inbox=hostile, conn_id=hostile, count=0, began_at=1.0, facts={AGE: 1.0})

    names = [*(metrics.PREFIX + name for name in metrics.COUNTERS), metrics.OLDEST_AGE]
    for name, line in zip(names, wire.sent, strict=True):
        assert line.startswith(f"{name},inbox=")
        assert line.isascii()
        assert line.isprintable()
        assert not set(line) & set(":|@# ")


@given(st.text())
def test_a_tag_is_plain(value: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_.-]{1,80}", metrics.safe(value))


def test_what_is_plain_already_is_not_changed() -> None:
    assert metrics.safe("orders-2.eu_west") == "orders-2.eu_west"


def test_the_stats_of_this_airflow_take_a_counter_and_a_gauge(caplog: pytest.LogCaptureFixture) -> None:
    tell("leased", inbox="orders", conn_id="c", facts={AGE: 1.5})

    assert "The observer" not in caplog.text


def test_stats_that_fail_fail_nothing_and_say_so_once(
    monkeypatch: pytest.MonkeyPatch, counted: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    counted.fault = OSError("no such host")
    for _ in range(3):
        tell("leased", inbox="orders", conn_id="c")

    assert caplog.text.count(f"The observer {METRICS} failed: OSError") == 1


@pytest.mark.parametrize("option", ["observers", "traces"])
def test_an_option_that_cannot_be_read_fails_nothing_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch,
    counted: Counted,
    caplog: pytest.LogCaptureFixture,
    option: str,
) -> None:
    def unreadable() -> None:
        raise ValueError("'%' must be followed by '%' or '('")

    monkeypatch.setattr(config, option, unreadable)
    for _ in range(3):
        tell("leased", inbox="orders", conn_id="c")

    assert caplog.text.count("The observer [workflow] failed: ValueError") == 1
    assert counted.totals == {"leased": 3}
