"""``inbox drain``: one run for each message, acknowledged once it exists, and nothing leased in vain."""

from __future__ import annotations

import io
from typing import Any

import pytest

from airflow_provider_workflow.dispatch.runs import run_id_of
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.cli.conftest import Cli
from tests.unit.cli.database import Database
from tests.unit.cli.draining import DRAIN, at_start, counts, handle, orders, put, states
from tests.unit.fake_clock import FakeClock

__all__ = ["at_start", "handle", "orders"]


@pytest.mark.parametrize("by", ["name", "id"])
def test_each_message_starts_one_run_with_what_a_dispatch_gives_it(
    cli: Cli, emulator: EmulatorServer, handle: Database, orders: str, by: str
) -> None:
    put(emulator, "a", "b")

    shown = cli("inbox", "drain", orders if by == "id" else "orders", *DRAIN[3:], "-o", "json")

    assert shown.code == 0
    assert shown.json["started"] == {"count": 2, "ids": ["a", "b"]}
    runs = handle.runs("handle")
    assert set(runs) == {run_id_of("a", orders), run_id_of("b", orders)}
    conf = runs[run_id_of("a", orders)]
    assert conf["inbox_id"] == orders
    assert set(conf["message"]) == {"id", "created_at", "payload", "message_attributes"}
    assert conf["message"]["payload"] == {"n": "a"}
    assert states(emulator) == {"a": "acked", "b": "acked"}


def test_people_are_told_what_was_done(cli: Cli, emulator: EmulatorServer) -> None:
    put(emulator, "a")

    shown = cli(*DRAIN)

    assert [[cell.strip() for cell in line.split("|")] for line in shown.out.splitlines()[2:]] == [
        ["started", "1", "a"],
        ["existing", "0", ""],
        ["rejected", "0", ""],
        ["dead_lettered", "0", ""],
    ]
    assert shown.err == "Inbox orders: the inbox has no more messages.\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_at_a_terminal(
    cli: Cli, emulator: EmulatorServer, at_start: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(emulator, "a", "b", "c")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)

    shown = cli(*DRAIN, "--max-messages", "2", "-o", "json")

    assert (shown.code, counts(shown.json)) == (0, [2, 0, 0])
    assert "0 messages: 0 started, 0 existing, 0 rejected" in terminal.getvalue()
    assert "2 messages: 2 started, 0 existing, 0 rejected" in terminal.getvalue()
    assert terminal.getvalue().endswith(
        "Inbox orders: one task has handled as many messages as it may, or for as long as it may.\n"
    )


def test_an_inbox_without_messages_is_drained(cli: Cli) -> None:
    shown = cli(*DRAIN, "-o", "json")

    assert (shown.code, counts(shown.json)) == (0, [0, 0, 0])


def test_a_message_is_acknowledged_only_after_its_run_exists(
    cli: Cli, emulator: EmulatorServer, at_start: list[Any]
) -> None:
    put(emulator, "a")
    at_start.append(lambda: seen.append(states(emulator)))
    seen: list[Any] = []

    cli(*DRAIN)

    assert seen == [{"a": "leased"}]
    assert states(emulator) == {"a": "acked"}


def test_a_message_that_comes_again_finds_its_run(
    cli: Cli, emulator: EmulatorServer, handle: Database, orders: str
) -> None:
    put(emulator, "a", "b")
    cli(*DRAIN)
    put(emulator, "c")
    emulator.put("orders", {"again": 1}, ids=["a"])

    shown = cli(*DRAIN, "-o", "json")

    assert counts(shown.json) == [1, 1, 0]
    assert set(handle.runs("handle")) == {run_id_of(each, orders) for each in "abc"}


def test_a_dag_that_is_not_there_is_said_before_anything_is_leased(
    cli: Cli, emulator: EmulatorServer
) -> None:
    put(emulator, "a")

    shown = cli("inbox", "drain", "orders", "--trigger-dag-id", "missing", "-o", "json")

    assert (shown.code, shown.out) == (3, "")
    assert "'missing' was not found" in shown.err
    assert (emulator.count("lease"), states(emulator)) == (0, {"a": "available"})


def test_a_dag_with_import_errors_is_said_before_anything_is_leased(
    cli: Cli, emulator: EmulatorServer, handle: Database
) -> None:
    put(emulator, "a")
    handle.change("handle", has_import_errors=True)

    assert cli(*DRAIN).code == 1
    assert emulator.count("lease") == 0


def test_an_inbox_that_is_not_there_is_not_found(cli: Cli, fake_clock: FakeClock) -> None:
    assert cli("inbox", "drain", "nobody", *DRAIN[3:]).code == 3


def test_no_more_messages_are_leased_than_were_asked_for(cli: Cli, emulator: EmulatorServer) -> None:
    put(emulator, "a", "b", "c")

    assert counts(cli(*DRAIN, "--max-messages", "2", "-o", "json").json) == [2, 0, 0]
    assert states(emulator) == {"a": "acked", "b": "acked", "c": "available"}
    assert emulator.count("release") == 0


def test_no_more_messages_are_leased_than_there_is_room_for(
    cli: Cli, emulator: EmulatorServer, handle: Database
) -> None:
    put(emulator, "a", "b", "c")
    more = ("--max-unfinished-runs", "2", "-o", "json")

    shown = cli(*DRAIN, *more)
    assert (shown.code, counts(shown.json)) == (0, [2, 0, 0])
    assert "as many unfinished runs as it may" in shown.err
    assert counts(cli(*DRAIN, *more).json) == [0, 0, 0]
    assert emulator.count("release") == 0
    handle.end_runs("handle")
    assert counts(cli(*DRAIN, *more).json) == [1, 0, 0]


@pytest.mark.parametrize(
    ("more", "field"),
    [(("--max-messages", "0"), "max_messages"), (("--max-unfinished-runs", "-1"), "max_unfinished_runs")],
)
def test_what_is_out_of_range_is_named_and_nothing_is_leased(
    cli: Cli, emulator: EmulatorServer, more: tuple[str, str], field: str
) -> None:
    shown = cli(*DRAIN, *more)

    assert (shown.code, emulator.count("lease")) == (2, 0)
    assert field in shown.err
