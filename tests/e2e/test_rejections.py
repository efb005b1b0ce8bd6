"""A target DAG that rejects runs: no rejection shows what a message holds."""

from __future__ import annotations

import re
from typing import Any

import pytest

from airflow_provider_workflow.airflow_internals import airflow_release
from tests.e2e.places import rows
from tests.e2e.stage import Inbox, Stage
from tests.logs import entries_of

pytestmark = [
    pytest.mark.since(3, 3, "an answer that tells why a run is rejected"),
    pytest.mark.since(3, 3, "the task state store"),
]
CARD = "4111 1111 1111 1111"
MARK = "mark-of-a-rejected-message"
GOOD_MARK = "mark-of-a-started-message"
MARKED = {
    "card": [CARD, MARK],
    "customer": {"cards": [{"number": CARD, "notes": [{"text": f"see {MARK}"}]}], MARK: CARD},
}
GOOD = {"amount": 1, "note": GOOD_MARK}
NO_RUN = "of which this task has started no run"
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
MANY = [MARKED] * 4
"""The target rejects the probes of each try: 1, then 2, 4, 8 ... messages."""
REJECTIONS: dict[str, tuple[str, str, list[Any], str]] = {
    "the probe of a sensor": ("listener", "greeting", MANY, "param message"),
    "the probe of each try": ("listener_with_retries", "greeting", MANY * 5, NO_RUN),
    "the probe of a poking sensor": ("poking_listener", "greeting", MANY, NO_RUN),
    "the probe of an operator": ("dispatcher", "greeting", MANY, NO_RUN),
    "a lease of the trigger": ("listener", "greeting", [MARKED], NO_RUN),
    "one message": ("listener", "picky", [GOOD, MARKED], "param message"),
    "one message of an operator": ("dispatcher", "picky", [GOOD, MARKED], "param message"),
    "one message that is only logged": ("listener_that_logs", "picky", [GOOD, MARKED], "param message"),
    "twenty in a row": ("dispatcher", "picky", [GOOD, *[MARKED] * 25], "20 new messages were rejected"),
    "an expression": ("listener_of_cards", "target", [MARKED], "cannot be evaluated on it: starts_with()"),
}
"""
Every way in which a message is rejected: the DAG, its target and the messages; and what its task's log says.
"""


@pytest.fixture(scope="module")
def ids_of_rejections(stage: Stage) -> dict[str, str]:
    """The log of each rejection, by what was rejected."""
    stage.airflow.wait_for_dags(["greeting", "picky"])
    runs = {}
    for name, (dag_id, target, payloads, _) in REJECTIONS.items():
        inbox = Inbox.open(stage.emulator, name)
        if name != "a lease of the trigger":
            inbox.put(*payloads)
        runs[name] = stage.start(dag_id, inbox, target)
        if name == "a lease of the trigger":
            runs[name].reaches("deferred")
            inbox.put(*payloads)
    return {name: run.reaches("failed", "success").log() for name, run in runs.items()}


def test_every_rejection_says_why(ids_of_rejections: dict[str, str]) -> None:
    missing = {
        name: log[-1500:] for name, log in ids_of_rejections.items() if REJECTIONS[name][-1] not in log
    }
    assert missing == {}


@pytest.mark.usefixtures("ids_of_rejections")
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


@pytest.mark.usefixtures("ids_of_rejections")
def test_nothing_of_a_rejected_message_is_in_the_database(stage: Stage) -> None:
    """Neither in ``next_kwargs`` nor in XComs, notes or anything else."""
    places = list(rows(stage.airflow))
    marks = (CARD, MARK, GOOD_MARK)
    places_of_marks = {mark: {place for place, value in places if mark.encode() in value} for mark in marks}
    assert places_of_marks == {CARD: set(), MARK: set(), GOOD_MARK: {"dag_run.conf"}}
