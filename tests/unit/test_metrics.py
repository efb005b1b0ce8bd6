"""Metrics: which are sent, from where, with which tags."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_workflow import config, observers, pytest_plugin
from airflow_provider_workflow.observers import metrics, tell
from tests.unit.counted import Counted, counted
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


def test_nothing_is_told_where_nothing_happened(counted: Counted, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        observers.tell("leased", inbox=INBOX, conn_id="c", count=0)

    assert counted.told == []


@given(st.text())
def test_a_tag_is_plain(value: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_.-]{1,80}", metrics.safe(value))


def test_what_is_plain_already_is_not_changed() -> None:
    assert metrics.safe("orders-2.eu_west") == "orders-2.eu_west"


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
