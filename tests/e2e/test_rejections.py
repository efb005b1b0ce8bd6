"""A target DAG that rejects runs: no rejection shows what a message holds."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from airflow_provider_workflow.airflow_internals import airflow_release
from tests.e2e.places import rows
from tests.e2e.stage import Inbox, Run, Stage
from tests.logs import entries_of

pytestmark = pytest.mark.since(3, 3, "an answer that tells why a run is rejected, and the task state store")
CARD = "4111 1111 1111 1111"
MARK = "mark-of-a-rejected-message"
GOOD_MARK = "mark-of-a-started-message"
MARKED = {
    "card": [CARD, MARK],
    "customer": {"cards": [{"number": CARD, "notes": [{"text": f"see {MARK}"}]}], MARK: CARD},
}
GOOD = {"amount": 1, "note": GOOD_MARK}
EVENTS = "what the triggerer writes of every event"
LINES_OF_AIRFLOW = {
    "what the task's supervisor writes of a rejection": re.compile(
        r"\S+ \[error *\] API server error +\[supervisor\] detail="
    ),
    EVENTS: re.compile(r'\{"timestamp":"[^"]*","level":"info","event":"Trigger fired event","name":'),
}
"""How the lines begin that may quote a message. Airflow writes them, and nothing of ours can change them."""
SILENT = {EVENTS} if airflow_release() >= (3, 4) else set()
"""Those that Airflow writes at DEBUG only."""
Start = Callable[[Stage], Run]


def before_any_run(dag_id: str, waiting: int = 4) -> Start:
    """The target rejects the probes of each try: 1, then 2, 4, 8 ... messages."""

    def start(stage: Stage) -> Run:
        inbox = Inbox.open(stage.emulator, f"greeting-{dag_id}")
        inbox.put(*[MARKED] * waiting)
        return stage.start(dag_id, inbox, target="greeting")

    return start


def after_a_run(dag_id: str, rejected: int = 1) -> Start:
    """The target takes one message, and then rejects others."""

    def start(stage: Stage) -> Run:
        inbox = Inbox.open(stage.emulator, f"picky-{dag_id}-{rejected}")
        inbox.put(GOOD, *[MARKED] * rejected)
        return stage.start(dag_id, inbox, target="picky")

    return start


def through_the_trigger(stage: Stage) -> Run:
    inbox = Inbox.open(stage.emulator, "through the trigger")
    run = stage.start("listener", inbox, target="greeting").reaches("deferred")
    inbox.put(MARKED)
    return run


def without_a_route(stage: Stage) -> Run:
    inbox = Inbox.open(stage.emulator, "without a route")
    inbox.put(MARKED)
    return stage.start("listener_of_cards", inbox)


REJECTIONS: dict[str, tuple[Start, str]] = {
    "the probe of a sensor": (before_any_run("listener"), "param message"),
    "the probe of each try": (before_any_run("listener_with_retries", 20), "has started no run of it"),
    "the probe of a poking sensor": (before_any_run("poking_listener"), "has started no run of it"),
    "the probe of an operator": (before_any_run("dispatcher"), "has started no run of it"),
    "a lease of the trigger": (through_the_trigger, "has started no run of it"),
    "one message": (after_a_run("listener"), "param message"),
    "one message of an operator": (after_a_run("dispatcher"), "param message"),
    "one message that is only logged": (after_a_run("listener_that_logs"), "param message"),
    "twenty in a row": (after_a_run("dispatcher", 25), "rejected 20 new messages"),
    "an expression": (without_a_route, "match cannot be evaluated on it"),
}
"""Every way in which a message is rejected, and what its task's log then says."""


@pytest.fixture(scope="module")
def rejected(stage: Stage) -> dict[str, str]:
    """The log of each rejection, by what was rejected."""
    stage.airflow.wait_for_dags(["greeting", "picky"])
    runs = {name: start(stage) for name, (start, _) in REJECTIONS.items()}
    for run in runs.values():
        run.reaches("failed", "success")
    return {name: run.log() for name, run in runs.items()}


def test_every_rejection_says_why(rejected: dict[str, str]) -> None:
    missing = {name: log[-1500:] for name, log in rejected.items() if REJECTIONS[name][1] not in log}
    assert missing == {}


@pytest.mark.usefixtures("rejected")
def test_no_log_line_but_those_of_airflow_quotes_a_rejected_message(stage: Stage) -> None:
    quoting = [entry for entry in entries_of(stage.airflow.home) if CARD in entry.text or MARK in entry.text]
    by_origin = {
        name: [entry for entry in quoting if line.match(entry.text)]
        for name, line in LINES_OF_AIRFLOW.items()
    }
    of_airflow = [entry for entries in by_origin.values() for entry in entries]
    assert [str(entry)[:500] for entry in quoting if entry not in of_airflow] == []
    silent = {name for name, entries in by_origin.items() if not entries}
    assert silent == SILENT, "else this test would not have found a line of ours"


@pytest.mark.usefixtures("rejected")
def test_nothing_of_a_rejected_message_is_in_the_database(stage: Stage) -> None:
    """Neither in ``next_kwargs`` nor in XComs, notes or anything else."""
    places = list(rows(stage.airflow))
    marks = (CARD, MARK, GOOD_MARK)
    found = {mark: {place for place, value in places if mark.encode() in value} for mark in marks}
    assert found == {CARD: set(), MARK: set(), GOOD_MARK: {"dag_run.conf"}}
