"""``dead-letters``: list and replay them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import Param

from airflow_provider_workflow.database import dag_runs
from airflow_provider_workflow.database.dag_runs import DatabaseRuns
from airflow_provider_workflow.dispatch.blame import Reason
from airflow_provider_workflow.dispatch.runs import KEY_PREFIX, run_id_of
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.cli.conftest import Cli
from tests.unit.cli.database import listening
from tests.unit.cli.dead_letter_runs import INBOX_ID, DeadLetterRuns
from tests.unit.cli.test_drain import at_start, counts, states
from tests.unit.documents import arguments_of_commands
from tests.unit.fake_stats import FakeStats, fake_stats

__all__ = ["at_start", "fake_stats"]


def message_ids(cli: Cli, *arguments: str) -> list[str]:
    result = cli("dead-letters", "list", "-o", "json", *arguments)
    assert result.code == 0, result.err
    return [row["message_id"] for row in result.json]


def test_each_is_listed_with_everything_but_its_message(cli: Cli, dead_letter_runs: DeadLetterRuns) -> None:
    run_id = dead_letter_runs.bury("a", "a secret", cause="value_error (status 400)")

    result = cli("dead-letters", "list", "-o", "json")

    assert result.code == 0
    [row] = result.json
    assert row.pop("time")
    assert row == {
        "message_id": "a",
        "connection_id": "workflow_default",
        "inbox_id": INBOX_ID,
        "inbox_name": INBOX_ID,
        "created_at": "2026-01-01T00:00:00Z",
        "delivery_count": 3,
        "reason": "rejected",
        "cause": "value_error (status 400)",
        "target_dag_id": "handle",
        "target_run_id": run_id_of("a", INBOX_ID),
        "dag_id": "dead",
        "run_id": run_id,
        "state": "queued",
        "replays": [],
    }
    assert "a secret" not in cli("dead-letters", "list").out + result.out


def test_the_newest_is_first_and_a_limit_says_that_there_are_more(
    cli: Cli, dead_letter_runs: DeadLetterRuns
) -> None:
    for number in range(5):
        dead_letter_runs.bury(f"m{number}", age=timedelta(hours=number))

    assert message_ids(cli) == ["m0", "m1", "m2", "m3", "m4"]
    assert message_ids(cli, "--limit", "2") == ["m0", "m1"]
    assert "more than 2 dead letters" in cli("dead-letters", "list", "--limit", "2").err
    assert cli("dead-letters", "list", "--limit", "5").err == ""


def test_options_select(cli: Cli, dead_letter_runs: DeadLetterRuns) -> None:
    dead_letter_runs.database.add_dag("other_dead")
    dead_letter_runs.bury("new")
    dead_letter_runs.bury("old", age=timedelta(hours=3))
    for reason in Reason:
        dead_letter_runs.bury(reason.value, reason=reason, target=None, age=timedelta(days=2))
    dead_letter_runs.bury("elsewhere", dag_id="other_dead")
    DatabaseRuns().start("dead", "manual__2026", {"message_id": "no dead letter"})
    DatabaseRuns().start("dead", "workflow-_dead--x", {"message_id": "of another prefix"})

    assert set(message_ids(cli)) == {"new", "old", *Reason}
    assert set(message_ids(cli, "--since", "2h")) == {"new"}
    assert set(message_ids(cli, "--since", "2020-01-01T00:00Z")) == {"new", "old", *Reason}
    for reason in Reason:
        assert reason in message_ids(cli, "--reason", reason)
    assert message_ids(cli, "--dag-id", "other_dead") == ["elsewhere"]
    assert len(message_ids(cli, "--dag-id", "other_dead", "--dag-id", "dead")) == 3 + len(Reason)


def test_connection_and_inbox_select(
    cli: Cli, dead_letter_runs: DeadLetterRuns, emulator: EmulatorServer
) -> None:
    orders, other = emulator.open_inbox("orders"), "00000000-0000-4000-8000-00000000ffff"
    dead_letter_runs.bury("a", inbox_id=orders)
    dead_letter_runs.bury("b", inbox_id=other)
    dead_letter_runs.bury("c", inbox_id=orders, connection_id="another")
    here = ("--conn-id", "workflow_default")

    assert set(message_ids(cli, *here)) == {"a", "b"}
    assert set(message_ids(cli, "--inbox", orders)) == {"a", "c"}
    assert message_ids(cli, *here, "--inbox", "orders") == ["a"]
    assert cli("dead-letters", "show", "c", *here).code == 3
    counts_of_replay = cli("dead-letters", "replay", *here, "--inbox", other, "-o", "json").json
    assert counts_of_replay["started"] == {"count": 1, "ids": ["b"]}
    missing = cli("dead-letters", "list", "--conn-id", "missing")
    assert (missing.code, missing.out) == (5, "")
    unnamed = cli("dead-letters", "list", "--inbox", "orders")
    assert (unnamed.code, "give --conn-id too" in unnamed.err) == (2, True)


def test_dead_letters_of_a_dag_that_no_listener_names_are_taken_only_if_the_command_names_it(
    cli: Cli, dead_letter_runs: DeadLetterRuns
) -> None:
    dead_letter_runs.database.add_dag("other")
    forged = dead_letter_runs.bury("a", dag_id="other")
    dead_letter_runs.bury("b")
    left_out = "Left out: dead letters of the DAG other, which no deployed listener"

    listing = cli("dead-letters", "list", "-o", "json")
    replay = cli("dead-letters", "replay", "--all", "-o", "json")
    by_id = [cli("dead-letters", "show", "a"), cli("dead-letters", "replay", "a", forged)]

    assert [letter["message_id"] for letter in listing.json] == ["b"]
    assert replay.json["started"]["ids"] == ["b"]
    assert [result.code for result in by_id] == [3, 3]
    assert all(left_out in result.err for result in (listing, replay, *by_id))
    assert set(dead_letter_runs.replays()) == {run_id("b")}
    replay_of_dag = cli("dead-letters", "replay", "--dag-id", "other", "-o", "json")
    assert (replay_of_dag.json["started"]["ids"], replay_of_dag.err) == (["a"], "")


@pytest.mark.parametrize(
    ("listener", "is_taken"),
    [
        ({"inbox": "orders"}, True),
        ({"inbox": INBOX_ID}, True),
        ({"inbox": INBOX_ID.replace("1", "2")}, False),
        ({"inbox": "orders", "workflow_conn_id": "another"}, False),
    ],
)
def test_a_command_compares_the_connection_of_a_listener_and_an_inbox_that_is_named_by_its_id(
    cli: Cli, dead_letter_runs: DeadLetterRuns, listener: dict[str, str], is_taken: bool
) -> None:
    dead_letter_runs.database.add_dag("other")
    dag = listening("listen", trigger_dag_id="handle", dead_letter_dag_id="other", **listener)
    dead_letter_runs.database.deploy(dag)
    dead_letter_runs.bury("a", dag_id="other")

    assert message_ids(cli) == (["a"] if is_taken else [])


def test_the_run_of_another_message_with_the_same_key_is_no_replay(
    cli: Cli, dead_letter_runs: DeadLetterRuns
) -> None:
    run_id = run_id_of(json.dumps(["payload.order_id", "A-1"]), INBOX_ID, KEY_PREFIX)
    for message_id in ("bad", "worse"):
        dead_letter_runs.bury(message_id, {"order_id": "A-1"}, changes={"target_run_id": run_id})
    dead_letter_runs.database.add_dag("other")
    elsewhere = ("--trigger-dag-id", "other", "-o", "json")
    assert cli("dead-letters", "replay", "bad", *elsewhere).json["started"]["ids"] == ["bad"]

    letters = cli("dead-letters", "list", "-o", "json").json
    assert {letter["message_id"]: len(letter["replays"]) for letter in letters} == {"bad": 1, "worse": 0}
    assert cli("dead-letters", "replay", "worse", "-o", "json").json["existing"]["ids"] == ["worse"]


def test_the_table_has_age_inbox_and_whether_it_was_replayed(
    cli: Cli, dead_letter_runs: DeadLetterRuns
) -> None:
    dead_letter_runs.bury("a", age=timedelta(hours=3, minutes=5))
    dead_letter_runs.bury("b", age=timedelta(days=2), changes={"inbox_name": "orders"})
    assert cli("dead-letters", "replay", "b").code == 0
    rows = [line.split(" | ") for line in cli("dead-letters", "list").out.splitlines()[2:]]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["a", "3 h", INBOX_ID[:8], "rejected", "handle"],
        ["b", "2 d", "orders", "replayed", "handle"],
    ]


def test_a_dead_letter_of_an_earlier_version_is_listed_with_the_id_of_its_inbox(
    cli: Cli, dead_letter_runs: DeadLetterRuns
) -> None:
    dead_letter_runs.bury("a", changes={"inbox_name": None})
    assert f" {INBOX_ID[:8]} " in cli("dead-letters", "list").out
    assert cli("dead-letters", "show", "a").code == 0


@pytest.mark.parametrize("message_id", ["plain", "\ud800 caf\u00e9\0", "x" * 225, "x" * 300])
def test_the_run_of_a_message_with_any_id_is_found(
    cli: Cli, dead_letter_runs: DeadLetterRuns, message_id: str
) -> None:
    run_id = dead_letter_runs.bury(message_id)
    assert cli("dead-letters", "replay", run_id).code == 0
    assert cli("dead-letters", "list", "-o", "json").json[0]["replays"]
    assert cli("dead-letters", "show", run_id).code == 0


def test_show_prints_the_exact_message(cli: Cli, dead_letter_runs: DeadLetterRuns) -> None:
    payload = {"nul": "a\0b", "half": "\ud800", "big": 2**70, "deep": [[1e300, -0.0]], "caf\u00e9": ""}
    run_id = dead_letter_runs.bury("a", payload)
    for name in ("a", run_id):
        result = cli("dead-letters", "show", name, "-o", "json")
        assert result.code == 0
        assert result.json["message"]["payload"] == payload
        assert json.loads(result.json["message_json"]) == result.json["message"]
        assert result.json["cause"] == "a made-up cause"
    table, _, message = cli("dead-letters", "show", "a").out.partition("\n\n")
    assert "a made-up cause" in table
    assert json.loads(message)["payload"] == payload


def test_show_prints_a_message_that_is_too_deep_to_decode(cli: Cli, dead_letter_runs: DeadLetterRuns) -> None:
    text = "[" * 500_000 + "]" * 500_000
    dead_letter_runs.bury("a", changes={"message_json": text})

    result = cli("dead-letters", "show", "a", "-o", "json")

    assert result.code == 0
    assert result.json["message"] is None
    assert text in result.json["message_json"]


def test_an_id_of_two_messages_is_told_apart_by_run_id(cli: Cli, dead_letter_runs: DeadLetterRuns) -> None:
    run_ids = [dead_letter_runs.bury("a"), dead_letter_runs.bury("a", inbox_id="another")]

    result = cli("dead-letters", "show", "a")

    assert result.code == 2
    assert all(other_run_id in result.err for other_run_id in run_ids)
    assert cli("dead-letters", "show", run_ids[1], "-o", "json").json["inbox_id"] == "another"


def test_a_run_whose_conf_is_no_dead_letter_is_shown_as_it_is(
    cli: Cli, dead_letter_runs: DeadLetterRuns
) -> None:
    DatabaseRuns().start("dead", "workflow__dead__x", {"message_json": 1})

    assert message_ids(cli) == [None]
    result = cli("dead-letters", "show", "workflow__dead__x", "-o", "json")
    assert (result.code, result.json["message"], result.json["message_json"]) == (0, None, 1)


REPLAY = ("dead-letters", "replay")


def replay_result(cli: Cli, *arguments: str) -> tuple[int, list[int]]:
    result = cli(*REPLAY, "-o", "json", *arguments)
    return result.code, counts(result.json)


def run_id(message_id: str) -> str:
    return run_id_of(message_id, INBOX_ID)


def test_a_message_that_the_target_rejects_is_replayed_once_it_is_corrected(
    cli: Cli, emulator: EmulatorServer, dead_letter_runs: DeadLetterRuns
) -> None:
    """The whole way: what is redelivered afterwards finds the run too."""
    message = Param({}, type="object", properties={"payload": {"type": "object"}})
    inbox_id = emulator.open_inbox("orders")
    emulator.put("orders", {}, "no object", {}, ids=["good", "bad", "fine"])
    dead_letter_runs.database.add_dag("handle", params={"message": message})
    dead_letters = ("--dead-letter-dag-id", "dead", "--dead-letter-after", "1")
    drain = cli("inbox", "drain", "orders", "--trigger-dag-id", "handle", *dead_letters, "-o", "json")
    assert drain.json["dead_lettered"] == {"count": 1, "ids": ["bad"]}, drain.err
    assert set(states(emulator).values()) == {"acked"}

    result = cli(*REPLAY, "bad")
    assert result.code == 1
    # The type of the error depends on the version of Airflow.
    assert "still dead letters: bad: " in result.err
    assert "param message" in result.err
    assert "no object" not in result.err + result.out
    assert set(dead_letter_runs.replays()) == {
        run_id_of(message_id, inbox_id) for message_id in ("good", "fine")
    }

    dead_letter_runs.database.add_dag("handle")
    assert replay_result(cli, "bad") == (0, [1, 0, 0])
    assert replay_result(cli, "bad") == (0, [0, 1, 0])
    conf = dead_letter_runs.replays()[run_id_of("bad", inbox_id)]
    assert set(conf) == {"connection_id", "inbox_id", "message"}
    assert conf["connection_id"] == "workflow_default"
    assert conf["inbox_id"] == inbox_id
    assert conf["message"]["payload"] == "no object"
    emulator.put("orders", {"redelivered": 1}, ids=["bad"])
    drain = cli("inbox", "drain", "orders", "--trigger-dag-id", "handle", "-o", "json")
    assert drain.json["existing"] == {"count": 1, "ids": ["bad"]}


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_a_replay_of_what_a_schema_rejected_says_once_that_it_is_not_checked_again(
    cli: Cli, dead_letter_runs: DeadLetterRuns, options: tuple[str, ...]
) -> None:
    dead_letter_runs.bury("a", reason=Reason.INVALID)
    dead_letter_runs.bury("b")

    result = cli("dead-letters", "replay", "--all", *options)

    assert (result.code, result.err.count("checked again")) == (0, 1), result.err
    assert result.err.startswith("The schema rejected 1 message, and is not checked again: a: ")
    assert cli("dead-letters", "replay", "b", *options).err == ""


def test_without_a_selection_nothing_is_started(cli: Cli, dead_letter_runs: DeadLetterRuns) -> None:
    dead_letter_runs.bury("a")

    for arguments in ((), ("--all", "a")):
        result = cli(*REPLAY, *arguments)
        assert (result.code, result.out) == (2, "")
        assert "--all" in result.err
    assert dead_letter_runs.replays() == {}
    assert replay_result(cli, "--all") == (0, [1, 0, 0])


def test_an_id_that_does_not_exist_starts_nothing(cli: Cli, dead_letter_runs: DeadLetterRuns) -> None:
    dead_letter_runs.bury("a")
    result = cli("dead-letters", "replay", "a", "b")
    assert (result.code, result.out) == (3, "")
    assert "no such dead letter: b" in result.err
    assert dead_letter_runs.replays() == {}


def test_what_was_started_is_shown_after_an_interrupt(
    cli: Cli, dead_letter_runs: DeadLetterRuns, at_start: list[Any]
) -> None:
    dead_letter_runs.bury("a", age=timedelta(hours=2))
    dead_letter_runs.bury("b")
    at_start += [None, KeyboardInterrupt()]
    result = cli("dead-letters", "replay", "--all", "-o", "json")
    assert (result.code, result.json["started"]["ids"]) == (130, ["a"])


def test_the_oldest_are_replayed_first(
    cli: Cli, dead_letter_runs: DeadLetterRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dag_runs, "MAX_PAGE_SIZE", 2)
    for number in range(5):
        dead_letter_runs.bury(f"m{number}", age=timedelta(hours=number + 1))
    counts_of_replay = cli("dead-letters", "replay", "--all", "-o", "json").json
    assert counts_of_replay["started"]["ids"] == ["m4", "m3", "m2", "m1", "m0"]


def test_another_target_is_started_unless_the_message_has_a_run_already(
    cli: Cli, dead_letter_runs: DeadLetterRuns
) -> None:
    dead_letter_runs.database.add_dag("other")
    dead_letter_runs.bury("a")
    dead_letter_runs.bury("b")
    replay_result(cli, "a")

    assert replay_result(cli, "--all", "--trigger-dag-id", "other") == (0, [1, 1, 0])
    assert set(dead_letter_runs.replays("other")) == {run_id("b")}
    # And the target that rejected it does not start a second run either.
    assert replay_result(cli, "--all") == (0, [0, 2, 0])
    assert set(dead_letter_runs.replays()) == {run_id("a")}


def test_where_a_target_is_broken_other_targets_go_on(cli: Cli, dead_letter_runs: DeadLetterRuns) -> None:
    dead_letter_runs.database.add_dag("broken")
    for message_id in "abc":
        dead_letter_runs.bury(message_id, target="missing" if message_id != "b" else "handle")
    dead_letter_runs.bury("d", target="broken")
    dead_letter_runs.bury("e", reason=Reason.UNMATCHED, target=None)
    dead_letter_runs.database.change("broken", has_import_errors=True)

    result = cli(*REPLAY, "--all", "-o", "json")

    assert (result.code, counts(result.json)) == (1, [1, 0, 4])
    assert "give trigger_dag_id" in result.json["causes"]["e"]
    assert "'missing' was not found" in result.json["causes"]["c"]
    assert "import errors" in result.json["causes"]["d"]


def test_a_dry_run_starts_nothing(cli: Cli, dead_letter_runs: DeadLetterRuns, fake_stats: FakeStats) -> None:
    dead_letter_runs.bury("a")
    dead_letter_runs.bury("b", target="missing")
    dead_letter_runs.bury("c")
    replay_result(cli, "c")

    result = cli(*REPLAY, "--all", "--dry-run", "-o", "json")

    assert result.code == 1
    assert result.json["dry_run"] is True
    assert [result.json[name]["ids"] for name in ("would_start", "existing", "rejected")] == [
        ["a"],
        ["c"],
        ["b"],
    ]
    assert set(dead_letter_runs.replays()) == {run_id("c")}
    assert fake_stats.totals == {"replayed": 1}


@pytest.mark.parametrize("selection", [("--all",), ("--reason", "invalid"), ("bad", "new", "worse")])
@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
def test_a_replay_says_what_the_schema_rejected_and_why_before_it_starts_a_run(
    cli: Cli,
    dead_letter_runs: DeadLetterRuns,
    at_start: list[Any],
    capsys: pytest.CaptureFixture[str],
    selection: tuple[str, ...],
    dry_run: tuple[str, ...],
) -> None:
    dead_letter_runs.bury("new", reason=Reason.INVALID, cause="$.total: not a number")
    for message_id in ("bad", "worse"):
        dead_letter_runs.bury(message_id, reason=Reason.INVALID, cause="$: not an object")
    replay_result(cli, "worse")
    said: list[str] = []
    at_start.append(lambda: said.append(capsys.readouterr().err))

    result = cli(*REPLAY, *selection, *dry_run)

    text = result.err if dry_run else said[0]
    assert "The schema rejected 2 messages, and is not checked again: " in text
    assert "new: $.total: not a number" in text
    assert "bad: $: not an object" in text
    assert "worse" not in text


def test_a_replay_of_what_the_schema_took_says_nothing_of_it(
    cli: Cli, dead_letter_runs: DeadLetterRuns
) -> None:
    dead_letter_runs.bury("bad", reason=Reason.INVALID)
    dead_letter_runs.bury("a")

    assert cli(*REPLAY, "a").err == ""
    assert cli(*REPLAY, "--reason", "rejected").err == ""


@pytest.mark.parametrize(("option", "value"), [("--limit", "0"), ("--since", "2x")])
def test_a_wrong_option_is_named(cli: Cli, dead_letter_runs: DeadLetterRuns, option: str, value: str) -> None:
    result = cli("dead-letters", "list", option, value)

    assert (result.code, result.out) == (2, "")
    assert f"{option} must be" in result.err


def test_one_that_is_added_meanwhile_is_not_replayed(
    cli: Cli, dead_letter_runs: DeadLetterRuns, at_start: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dag_runs, "MAX_PAGE_SIZE", 1)
    dead_letter_runs.bury("a")
    at_start.append(lambda: dead_letter_runs.bury("later"))

    assert replay_result(cli, "--all") == (0, [1, 0, 0])


def test_a_run_that_is_no_dead_letter_of_a_message_is_rejected(
    cli: Cli, dead_letter_runs: DeadLetterRuns
) -> None:
    DatabaseRuns().start("dead", "workflow__dead__x", {"message_json": "{}"})
    DatabaseRuns().start("dead", "workflow__dead__y", {})
    dead_letter_runs.bury("a")
    (conf,) = (
        replay for replay in dead_letter_runs.replays("dead").values() if replay.get("message_id") == "a"
    )
    DatabaseRuns().start("dead", "workflow__dead__copied", conf)

    result = cli(*REPLAY, "--all", "-o", "json")

    assert (result.code, counts(result.json)) == (1, [1, 0, 3])
    assert result.json["causes"] == {
        "workflow__dead__x": "message_json in its conf has no id",
        "workflow__dead__y": "its conf has no message_json",
        "a": "its run id is not that of a dead letter of its message",
    }
    assert set(dead_letter_runs.replays()) == {run_id("a")}


def test_the_documented_commands_list_show_and_replay(cli: Cli, dead_letter_runs: DeadLetterRuns) -> None:
    commands = arguments_of_commands("docs/dead-letters.md", "airflow-workflow dead-letters list")
    message_id = commands[1][2]
    dead_letter_runs.bury(message_id)

    results = [cli(*command) for command in commands]

    assert [result.code for result in results] == [0] * len(commands)
    assert [message_id in result.out for result in results] == [True] * len(commands)
    assert len(dead_letter_runs.replays()) == 1


@pytest.mark.parametrize(
    ("page", "beginning"),
    [
        ("docs/dead-letters.md", "airflow-workflow dead-letters replay"),
        ("docs/routing.md", "airflow-workflow dead-letters list"),
    ],
)
def test_the_documented_filters_choose_what_is_replayed(
    page: str, beginning: str, cli: Cli, dead_letter_runs: DeadLetterRuns, connected_emulator: EmulatorServer
) -> None:
    inbox_id = connected_emulator.open_inbox("payments")
    dead_letter_runs.bury("a", reason=Reason.INVALID, inbox_id=inbox_id)
    dead_letter_runs.bury("b", reason=Reason.REJECTED, inbox_id=INBOX_ID)
    *_, replay_all = arguments_of_commands("docs/dead-letters.md", "airflow-workflow dead-letters replay")

    results = [
        cli(*command, "-o", "json")
        for command in arguments_of_commands(page, beginning)
        if command != replay_all
    ]

    assert [(result.code, '"a"' in result.out, '"b"' in result.out) for result in results] == [
        (0, True, False)
    ] * len(results)
    assert len(dead_letter_runs.replays()) == 1
    assert cli(*replay_all).code == 0
    assert len(dead_letter_runs.replays()) == 2
