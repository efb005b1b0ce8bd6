"""``dead-letters replay``: the run that the message was meant to start, once however often it is replayed."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider_workflow.database import dag_runs
from airflow_provider_workflow.database.runs import DatabaseRuns
from airflow_provider_workflow.dispatch.dead_letters import Reason
from airflow_provider_workflow.dispatch.runs import run_id_of
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.cli.burying import CONNECTION_ID, INBOX_ID, Burying, buried
from tests.unit.cli.conftest import Cli
from tests.unit.cli.draining import at_start, states
from tests.unit.counted import Counted, counted
from tests.unit.fake_clock import FakeClock

__all__ = ["at_start", "buried", "counted"]

REPLAY = ("dead-letters", "replay")


def numbers(result: Any) -> list[int]:
    return [result[name]["count"] for name in ("started", "existing", "rejected")]


def replayed(cli: Cli, *arguments: str) -> tuple[int, list[int]]:
    shown = cli(*REPLAY, "-o", "json", *arguments)
    return shown.code, numbers(shown.json)


def run_id(message_id: str) -> str:
    return run_id_of(message_id, INBOX_ID)


def test_a_message_that_the_target_rejects_is_replayed_once_it_is_corrected(
    cli: Cli, emulator: EmulatorServer, buried: Burying
) -> None:
    """The whole way: what is redelivered afterwards finds the run too."""
    text = {"message": {"type": "object", "properties": {"payload": {"type": "object"}}}}
    inbox_id = emulator.open_inbox("orders")
    emulator.put("orders", {}, "no object", {}, ids=["good", "bad", "fine"])
    buried.database.add_dag("handle", params=typed(text))
    dead_letters = ("--dead-letter-dag-id", "dead", "--dead-letter-after", "1")
    drained = cli("inbox", "drain", "orders", "--trigger-dag-id", "handle", *dead_letters, "-o", "json")
    assert drained.json["dead_lettered"] == {"count": 1, "ids": ["bad"]}, drained.err
    assert set(states(emulator).values()) == {"acked"}

    shown = cli(*REPLAY, "bad")
    assert shown.code == 1
    # The type of the error depends on the version of Airflow.
    assert "still dead letters: bad: " in shown.err
    assert "param message" in shown.err
    assert "no object" not in shown.err + shown.out
    assert set(buried.replays()) == {run_id_of(each, inbox_id) for each in ("good", "fine")}

    buried.database.add_dag("handle")
    assert replayed(cli, "bad") == (0, [1, 0, 0])
    assert replayed(cli, "bad") == (0, [0, 1, 0])
    conf = buried.replays()[run_id_of("bad", inbox_id)]
    assert set(conf) == {"connection_id", "inbox_id", "message"}
    assert conf["connection_id"] == "workflow_default"
    assert conf["inbox_id"] == inbox_id
    assert conf["message"]["payload"] == "no object"
    emulator.put("orders", {"redelivered": 1}, ids=["bad"])
    drained = cli("inbox", "drain", "orders", "--trigger-dag-id", "handle", "-o", "json")
    assert drained.json["existing"] == {"count": 1, "ids": ["bad"]}


def typed(schemas: dict[str, Any]) -> dict[str, Any]:
    from airflow.sdk import Param

    return {name: Param({}, **schema) for name, schema in schemas.items()}


@pytest.mark.parametrize("message_id", ["plain", "\ud800 caf\u00e9\0"])
def test_one_is_replayed_by_the_id_of_its_run(cli: Cli, buried: Burying, message_id: str) -> None:
    dead = buried.bury(message_id)

    assert replayed(cli, dead) == (0, [1, 0, 0])
    assert set(buried.replays()) == {run_id(message_id)}


def test_without_a_selection_nothing_is_started(cli: Cli, buried: Burying) -> None:
    buried.bury("a")

    for arguments in ((), ("--all", "a"), ("--rate", "5/s")):
        shown = cli(*REPLAY, *arguments)
        assert (shown.code, shown.out) == (2, "")
        assert "--all" in shown.err
    assert buried.replays() == {}
    assert replayed(cli, "--all") == (0, [1, 0, 0])


def test_options_select(cli: Cli, buried: Burying) -> None:
    buried.database.add_dag("other_dead")
    buried.bury("old", age=timedelta(hours=3))
    buried.bury("target", reason=Reason.TARGET)
    buried.bury("elsewhere", dag_id="other_dead")

    assert replayed(cli, "--reason", "target") == (0, [1, 0, 0])
    assert replayed(cli, "--dag-id", "other_dead") == (0, [1, 0, 0])
    assert replayed(cli, "--since", "2h") == (0, [0, 2, 0])
    assert set(buried.replays()) == {run_id("target"), run_id("elsewhere")}
    assert cli(*REPLAY, "old", "--since", "2h").code == 3


def test_an_id_that_does_not_exist_starts_nothing(cli: Cli, buried: Burying) -> None:
    buried.bury("a")

    shown = cli(*REPLAY, "a", "b")

    assert (shown.code, shown.out) == (3, "")
    assert "selected ones: b" in shown.err
    assert buried.replays() == {}


def test_one_without_a_target_needs_one(cli: Cli, buried: Burying) -> None:
    buried.bury("a", reason=Reason.UNMATCHED, target=None)

    shown = cli(*REPLAY, "a")
    assert shown.code == 1
    assert "give trigger_dag_id" in shown.err
    assert replayed(cli, "a", "--trigger-dag-id", "handle") == (0, [1, 0, 0])
    assert set(buried.replays()) == {run_id("a")}


def test_another_target_is_started_unless_the_message_has_a_run_already(cli: Cli, buried: Burying) -> None:
    buried.database.add_dag("other")
    buried.bury("a")
    buried.bury("b")
    replayed(cli, "a")

    assert replayed(cli, "--all", "--trigger-dag-id", "other") == (0, [1, 1, 0])
    assert set(buried.replays("other")) == {run_id("b")}
    # And the target that rejected it does not start a second run either.
    assert replayed(cli, "--all") == (0, [0, 2, 0])
    assert set(buried.replays()) == {run_id("a")}


def test_a_rejected_one_stays_and_the_others_are_started(
    cli: Cli, buried: Burying, at_start: list[Any]
) -> None:
    for each in "abc":
        buried.bury(each, "a secret")
    at_start += [None, ValueError("Invalid input for param x: 'a secret' is too long"), None]

    shown = cli(*REPLAY, "--all", "-o", "json")

    assert (shown.code, numbers(shown.json)) == (1, [2, 0, 1])
    assert shown.json["causes"] == {"b": "ValueError: param x"}
    assert "1 not replayed, still dead letters: b: ValueError" in shown.err
    assert "a secret" not in shown.err + shown.out
    assert set(buried.replays()) == {run_id("a"), run_id("c")}
    assert len(buried.replays("dead")) == 3
    assert replayed(cli, "--all") == (0, [1, 2, 0])


def test_a_target_that_is_broken_is_tried_once_and_other_targets_go_on(
    cli: Cli, buried: Burying, monkeypatch: pytest.MonkeyPatch
) -> None:
    buried.database.add_dag("broken")
    for each in "abc":
        buried.bury(each, target="missing" if each != "b" else "handle")
    buried.bury("d", target="broken")
    buried.database.change("broken", has_import_errors=True)
    checked: list[str] = []
    check = DatabaseRuns.check_target

    def noted(runs: DatabaseRuns, dag_id: str, **given: Any) -> None:
        checked.append(dag_id)
        check(runs, dag_id, **given)

    monkeypatch.setattr(DatabaseRuns, "check_target", noted)

    shown = cli(*REPLAY, "--all", "-o", "json")

    assert (shown.code, numbers(shown.json)) == (1, [1, 0, 3])
    assert "'missing' was not found" in shown.json["causes"]["c"]
    assert "import errors" in shown.json["causes"]["d"]
    assert sorted(checked) == ["broken", "handle", "missing"]


def test_a_dry_run_starts_nothing(cli: Cli, buried: Burying, counted: Counted) -> None:
    buried.bury("a")
    buried.bury("b", target="missing")
    buried.bury("c")
    replayed(cli, "c")

    shown = cli(*REPLAY, "--all", "--dry-run", "--rate", "1/h", "-o", "json")

    assert shown.code == 1
    assert shown.json["dry_run"] is True
    assert [shown.json[name]["ids"] for name in ("would_start", "existing", "rejected")] == [
        ["a"],
        ["c"],
        ["b"],
    ]
    assert set(buried.replays()) == {run_id("c")}
    assert counted.totals == {"replayed": 1}


def test_each_started_run_is_counted(cli: Cli, buried: Burying, counted: Counted) -> None:
    buried.bury("a")
    buried.bury("b")
    replayed(cli, "--all")
    replayed(cli, "--all")

    assert counted.totals == {"replayed": 2}
    assert counted.tags == [{"inbox": INBOX_ID, "conn_id": CONNECTION_ID}]


def test_the_oldest_are_replayed_first_at_most_at_the_rate(
    cli: Cli, buried: Burying, fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    fake_clock.set(time.time())
    monkeypatch.setattr(dag_runs, "PAGE", 2)
    for number in range(5):
        buried.bury(f"m{number}", age=timedelta(hours=number + 1))

    shown = cli(*REPLAY, "--all", "--rate", "120/m", "-o", "json")

    assert shown.json["started"]["ids"] == ["m4", "m3", "m2", "m1", "m0"]
    assert sum(fake_clock.slept) == pytest.approx(2)
    assert set(fake_clock.slept) == {0.5}


@pytest.mark.parametrize("rate", ["5", "0/s", "5/d", "x/s"])
def test_a_wrong_rate_is_named(cli: Cli, buried: Burying, rate: str) -> None:
    shown = cli(*REPLAY, "--all", "--rate", rate)

    assert shown.code == 2
    assert "--rate must be" in shown.err


def test_one_that_is_added_meanwhile_is_not_replayed(
    cli: Cli, buried: Burying, at_start: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dag_runs, "PAGE", 1)
    buried.bury("a")
    at_start.append(lambda: buried.bury("later"))

    assert replayed(cli, "--all") == (0, [1, 0, 0])


def test_a_run_that_is_no_dead_letter_of_a_message_is_rejected(cli: Cli, buried: Burying) -> None:
    DatabaseRuns().start("dead", "workflow__dead__x", {"message_json": "{}"})
    DatabaseRuns().start("dead", "workflow__dead__y", {})
    buried.bury("a")
    (conf,) = (each for each in buried.replays("dead").values() if each.get("message_id") == "a")
    DatabaseRuns().start("dead", "workflow__dead__copied", conf)

    shown = cli(*REPLAY, "--all", "-o", "json")

    assert (shown.code, numbers(shown.json)) == (1, [1, 0, 3])
    assert shown.json["causes"] == {
        "workflow__dead__x": "message_json in its conf has no id",
        "workflow__dead__y": "its conf has no message_json",
        "a": "its run id is not that of a dead letter of its message",
    }
    assert set(buried.replays()) == {run_id("a")}


def test_what_was_started_is_shown_after_an_interrupt(cli: Cli, buried: Burying, at_start: list[Any]) -> None:
    buried.bury("a")
    buried.bury("b")
    at_start += [None, KeyboardInterrupt()]

    shown = cli(*REPLAY, "--all", "-o", "json")

    assert (shown.code, numbers(shown.json)) == (130, [1, 0, 0])


def test_progress_is_shown_at_a_terminal_only(
    cli: Cli, buried: Burying, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    buried.bury("a")
    assert cli(*REPLAY, "--all").err == ""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    cli(*REPLAY, "--all")

    assert "dead letters: 0 started, " in terminal.getvalue()


def test_a_table_shows_the_first_id(cli: Cli, buried: Burying) -> None:
    for number in range(5):
        buried.bury(f"m{number}")

    lines = cli(*REPLAY, "--all").out.splitlines()

    assert [cell.strip() for cell in lines[2].split(" | ")] == ["started", "5", "m0"]
