"""Metrics reach Airflow's Stats whatever they are called, hold up nobody, and fail nothing."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_workflow import airflow_internals, metrics
from tests.unit.counted import Counted, counted

__all__ = ["counted"]

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
    for metric in metrics.METRICS:
        tell = metrics.gauge if metric.kind == metrics.GAUGE else metrics.count
        tell(metric, 1, inbox=hostile, conn_id=hostile)

    assert len(wire.sent) == len(metrics.METRICS)
    for metric, line in zip(metrics.METRICS, wire.sent, strict=True):
        assert line.startswith(f"{metric.name},inbox=")
        assert line.isascii()
        assert line.isprintable()
        assert not set(line) & set(":|@# ")


@given(st.text(), st.text())
def test_a_tag_is_plain_and_tells_two_texts_apart(one: str, other: str) -> None:
    tags = [metrics.safe(text, 40) for text in (one, other)]
    for tag in tags:
        assert 0 < len(tag) <= 40
        assert re.fullmatch(r"[A-Za-z0-9_.-]+", tag)
    assert (tags[0] == tags[1]) == (one == other)


def test_what_is_plain_already_is_not_changed() -> None:
    assert metrics.safe("orders-2.eu_west", 40) == "orders-2.eu_west"


def test_the_stats_of_this_airflow_take_a_counter_and_a_gauge(caplog: pytest.LogCaptureFixture) -> None:
    metrics.count(metrics.LEASED, 1, inbox="orders", conn_id="c")
    metrics.gauge(metrics.OLDEST_AGE, 1.5, inbox="orders", conn_id="c")

    assert "A metric could not be sent" not in caplog.text


def test_stats_that_fail_fail_nothing_and_say_so_once(
    monkeypatch: pytest.MonkeyPatch, counted: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    counted.fault = OSError("no such host")
    for _ in range(3):
        metrics.count(metrics.LEASED, 1, inbox="orders", conn_id="c")

    assert caplog.text.count("A metric could not be sent: OSError: no such host") == 1


async def test_stats_that_hang_do_not_hold_an_event_loop(counted: Counted) -> None:
    counted.gate = threading.Event()
    metrics.count(metrics.LEASED, 2, inbox="orders", conn_id="c")
    assert counted.told == []
    counted.gate.set()
    assert counted.totals == {"leased": 2}


async def test_more_than_can_wait_is_lost_and_said_once(
    counted: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    counted.gate = threading.Event()
    # The thread has one in hand, or has not begun.
    for _ in range(metrics.MOST_WAITING + 3):
        metrics.count(metrics.LEASED, 1, inbox="orders", conn_id="c")
    counted.gate.set()

    assert metrics.MOST_WAITING <= counted.totals["leased"] <= metrics.MOST_WAITING + 1
    assert caplog.text.count("A metric could not be sent: Full") == 1


def test_a_forked_child_sends_its_own(counted: Counted) -> None:
    async def count() -> None:
        metrics.count(metrics.LEASED, 1, inbox="orders", conn_id="c")

    asyncio.run(count())
    assert counted.totals == {"leased": 1}
    pid = os.fork()
    if pid == 0:
        asyncio.run(count())
        os._exit(0 if counted.totals == {"leased": 2} else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_where_no_thread_can_be_started_a_metric_is_lost_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def count_twice() -> None:
        for _ in range(2):
            metrics.count(metrics.EMITTED, 1, inbox="orders", conn_id="workflow_default")

    # A forked child has no thread yet.
    pid = os.fork()
    if pid == 0:
        monkeypatch.setattr(threading.Thread, "start", start)
        asyncio.run(count_twice())
        said = caplog.text.count("A metric could not be sent: RuntimeError: can't start new thread")
        os._exit(0 if said == 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
