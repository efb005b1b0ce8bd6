"""A target DAG that rejects runs: no message is quarantined, and no rejection shows what a message holds."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_workflow.airflow_internals import airflow_release
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.e2e.places import rows
from tests.e2e.stage import Inbox, Run, Stage
from tests.logs import entries_of
from tools.local_airflow import LocalAirflow

pytestmark = pytest.mark.since(3, 3, "an answer that tells why a run is rejected, and the task state store")
HERE = Path(__file__).parent
WAITING = (1, 3, 5, 20)
"""Messages of each inbox."""
MINUTES = (0, 10, 10, 10, 10, 10, 10)
"""How far the service's clock is moved before each round: the target is broken for an hour."""
PROBE_SECONDS = 3600
"""How long the message is leased with which a retry tries a target that was broken."""

BROKEN = """
    from airflow.providers.standard.operators.empty import EmptyOperator
    from airflow.sdk import DAG, Param
    with DAG("mended", schedule=None, max_active_runs=100, params={"need": Param(type="string")}):
        EmptyOperator(task_id="nothing")
"""
MENDED = BROKEN.replace(', params={"need": Param(type="string")}', "")

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


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """An Airflow and an emulator of these tests' own: the clock is moved, and every log line is read."""
    home = tmp_path_factory.mktemp("broken")
    folder = home / "dags"
    folder.mkdir()
    with (
        EmulatorServer() as emulator,
        LocalAirflow(
            home / "airflow",
            folder,
            {"workflow_default": emulator.connection_json()},
            parallelism=8,
            log_level="INFO",
        ) as airflow,
    ):
        for file in ("listeners.py", "targets.py"):
            shutil.copy(HERE / "dags" / file, folder)
        yield Stage(airflow, emulator)


def test_a_target_that_is_broken_for_an_hour_quarantines_nothing(stage: Stage) -> None:
    folder = Path(stage.airflow.env["AIRFLOW__CORE__DAGS_FOLDER"])
    target = folder / "mended.py"
    target.write_text(textwrap.dedent(BROKEN))
    stage.airflow.wait_for_dags(["mended"])
    inboxes = [Inbox.open(stage.emulator, f"waiting-{count}") for count in WAITING]
    ids = [
        inbox.put(*[{"n": n} for n in range(count)]) for count, inbox in zip(WAITING, inboxes, strict=True)
    ]
    shutil.copy(HERE / "broken" / "waiting.py", folder)
    for minutes in MINUTES:
        leased = [inbox.leases_made for inbox in inboxes]
        stage.emulator.store.clock.advance(minutes * 60)
        for inbox, before in zip(inboxes, leased, strict=True):
            stage.until(lambda i=inbox, b=before: tried_or_leased(i, b), f"a try for {inbox.name}")
    assert not stage.airflow.api.dag_runs("mended")
    assert all(inbox.counts["quarantined"] == inbox.counts["acked"] == 0 for inbox in inboxes)

    target.write_text(textwrap.dedent(MENDED))
    stage.until(lambda: not params_of(stage, "mended"), "the target to be mended")
    stage.emulator.store.clock.advance(PROBE_SECONDS + 1)
    for inbox, expected in zip(inboxes, ids, strict=True):
        stage.until(inbox.all_acknowledged, f"the messages of {inbox.name} to be acknowledged")
        stage.check_one_run_each(inbox, expected, "mended")
        assert inbox.counts == {"available": 0, "leased": 0, "acked": len(expected), "quarantined": 0}
        assert inbox.lease_counts[-1] <= 4, "an attempt an hour, after the first"


def tried_or_leased(inbox: Inbox, leases_before: int) -> bool:
    """Whether a task has tried one message more; it cannot where each is leased by an earlier try."""
    return inbox.leases_made > leases_before or inbox.counts["available"] == 0


def params_of(stage: Stage, dag_id: str) -> dict[str, Any]:
    return stage.airflow.api.request("GET", f"dags/{dag_id}/details")["params"]


# What a message holds

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
    run = stage.start("listener", inbox, target="greeting")
    run.reaches("deferred")
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
    found = {
        mark: {place for place, value in rows(stage.airflow) if mark.encode() in value}
        for mark in (CARD, MARK, GOOD_MARK)
    }
    assert found == {CARD: set(), MARK: set(), GOOD_MARK: {"dag_run.conf"}}
