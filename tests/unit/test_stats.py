"""Metrics reach Airflow's Stats whatever they are called, and fail nothing."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_workflow import airflow_internals, config
from airflow_provider_workflow.observers import AGE, METRICS, metrics, tell
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
