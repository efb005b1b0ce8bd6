"""The examples of the page on alerting: its snippets are run, its rules and dashboard name what exists."""

from __future__ import annotations

import asyncio
import json
import re
import runpy
from datetime import timedelta
from itertools import combinations
from typing import Any

import pytest
import yaml
from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.sdk.definitions.deadline import DeadlineReference

from airflow_provider_workflow.observers import metrics
from tests.unit.documents import DOCS, PAGES

FOLDER = DOCS / "examples" / "alerting"
RULES = [
    rule for group in yaml.safe_load((FOLDER / "rules.yml").read_text())["groups"] for rule in group["rules"]
]
DASHBOARD = json.loads((FOLDER / "grafana-dashboard.json").read_text())
PANELS = [each for each in DASHBOARD["panels"] if each["type"] != "row"]
COUNTERS = [*(metrics.PREFIX + name for name in metrics.COUNTERS), metrics.RATE_LIMITED]
NAMES = {f"airflow_{name.replace('.', '_')}": name for name in (*COUNTERS, metrics.OLDEST_AGE)}
"""What the StatsD exporter makes of the names."""
UNITS = {"s", "short", "cpm"}


def metrics_in(expression: str) -> set[str]:
    return set(re.findall(r"\bairflow_\w+", expression))


def tags_of(name: str) -> set[str]:
    return {"conn_id", "family" if NAMES[name] == metrics.RATE_LIMITED else "inbox"}


def labels_in(expression: str) -> set[str]:
    """Labels that a query selects or groups by."""
    grouped = re.findall(r"\b(?:by|on) \(([^)]*)\)", expression)
    selected = re.findall(r"(\w+)=~?\"", expression)
    return {label.strip() for each in grouped for label in each.split(",")} | set(selected)


def queries(panel: dict[str, Any]) -> list[str]:
    return [each["expr"] for each in panel["targets"]]


def overlaps(one: dict[str, int], other: dict[str, int]) -> bool:
    return all(
        one[at] < other[at] + other[size] and other[at] < one[at] + one[size]
        for at, size in (("x", "w"), ("y", "h"))
    )


def test_a_query_names_metrics_and_labels_that_exist() -> None:
    for expression in (rule["expr"] for rule in RULES), *(queries(panel) for panel in PANELS):
        for query in expression:
            used = metrics_in(query)

            assert used, query
            assert used <= set(NAMES), query
            assert labels_in(query) <= set.intersection(*(tags_of(name) for name in used)), query
            # The value of a counter is the number since the exporter started.
            rates = re.sub(r"\(\S+\s+unless \S+\s+offset [^)]*\)", "", query)
            bare = re.findall(r"\b(airflow_\w+)(?:\{[^}]*\})?(?!\w|\{|\[)", rates)
            assert [name for name in bare if NAMES[name] in COUNTERS] == [], query


def test_a_rule_says_what_is_wrong_and_what_to_do() -> None:
    assert len({each["alert"] for each in RULES}) == len(RULES) > 5
    for rule in RULES:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}
        assert metrics_in(rule["expr"])


def test_there_is_a_rule_for_each_metric_of_a_loss() -> None:
    ruled = set().union(*(metrics_in(each["expr"]) for each in RULES))
    losses = ("quarantined", "dead_lettered", "rejected", "lease_expired", "oldest_message_age")

    assert {f"airflow_workflow_inbox_{each}" for each in losses} <= ruled
    assert "airflow_workflow_rate_limited" in ruled


def test_each_rule_is_on_the_page() -> None:
    assert [each["alert"] for each in RULES if f"`{each['alert']}`" not in PAGES["docs/alerting.md"]] == []


def test_the_dashboard_shows_each_metric() -> None:
    shown = set().union(*(metrics_in(query) for each in PANELS for query in queries(each)))

    assert shown == set(NAMES)


def test_a_panel_has_a_title_a_description_a_unit_and_the_chosen_source() -> None:
    source = {"type": "prometheus", "uid": "${datasource}"}

    for panel in PANELS:
        title = panel["title"]
        assert title
        assert panel["description"].endswith("."), title
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, title
        assert all(part["datasource"] == source for part in (panel, *panel["targets"])), title
        for query in queries(panel):
            assert 'conn_id=~"$conn_id"' in query, title
            assert 'inbox=~"$inbox"' in query or "rate_limited" in query, title


def test_panels_have_places_and_numbers_of_their_own() -> None:
    panels = DASHBOARD["panels"]
    places = [each["gridPos"] for each in panels]

    assert len({each["id"] for each in panels}) == len(panels)
    assert [pair for pair in combinations(places, 2) if overlaps(*pair)] == []
    assert max(each["x"] + each["w"] for each in places) == 24


def test_the_source_can_be_chosen_and_the_connection_and_the_inbox() -> None:
    variables = {each["name"]: each for each in DASHBOARD["templating"]["list"]}

    assert list(variables) == ["datasource", "conn_id", "inbox"]
    assert variables["datasource"]["type"] == "datasource"
    assert variables["datasource"]["query"] == "prometheus"
    for name in ("conn_id", "inbox"):
        assert metrics_in(variables[name]["query"]["query"]) <= set(NAMES)


@pytest.fixture
def mails(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Subject and content of each mail."""
    sent: list[tuple[str, str]] = []

    def send(self: Any, context: Any) -> None:
        sent.append((self.subject, " ".join(self.html_content.split())))

    async def async_send(self: Any, context: Any) -> None:
        send(self, context)

    monkeypatch.setattr(SmtpNotifier, "notify", send)
    monkeypatch.setattr(SmtpNotifier, "async_notify", async_send)
    return sent


def run(name: str) -> dict[str, Any]:
    return runpy.run_path(str(FOLDER / name))


def test_a_late_run_has_a_deadline_and_its_callback_can_be_stored(mails: list[Any]) -> None:
    dag = run("deadline.py")["handler"]
    (deadline,) = dag.deadline if isinstance(dag.deadline, list) else [dag.deadline]
    notifier = SmtpNotifier(**deadline.callback.kwargs, context={"dag_run": {"dag_run_id": "late"}})

    async def call() -> None:
        await notifier

    asyncio.run(call())
    assert mails == [("Late: late", "See the run in Airflow.")]
    assert deadline.reference == DeadlineReference.DAGRUN_QUEUED_AT
    assert deadline.interval == timedelta(minutes=30)
    assert deadline.callback.path.endswith(".SmtpNotifier")
