"""DAG files of many watchers, and what is shown of those that wait."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import pytest

from benchmarks.process import Seen, Window
from benchmarks.results import Row
from benchmarks.scale import files
from benchmarks.scale.fleet import (
    EMULATOR,
    POSTGRES,
    RUNNERS,
    SCHEDULER,
    SUPERVISORS,
    Stored,
    Waiting,
    triggerers,
)
from benchmarks.scale.hollow import Noticed, watch
from benchmarks.scale.load import MACHINE, Load
from benchmarks.scale.watchers import (
    BARE,
    Bare,
    bare_rows,
    chosen_of,
    limits_met,
    noticed_seconds,
    stored_rows,
    waiting_rows,
)

GROUPS = (RUNNERS, SUPERVISORS, POSTGRES, SCHEDULER, EMULATOR, MACHINE)
LOAD = Load(60.0, {group: number * 6.0 for number, group in enumerate(GROUPS, 1)})
STORED = Stored([1.0, 3.0], seconds=20.0, rows=2000)
WAITING = Waiting(
    triggerers=2,
    polled_seconds=30.0,
    load=LOAD,
    megabytes=400.0,
    sockets=2100,
    streams=2000,
    polls=2000,
    unassigned=0,
    late=0,
    blocked_before=3,
    blocked=0,
    noticed=[0.5, 1.5],
    samples=2,
)
WATCHED = Bare(
    count=2000,
    polled_seconds=10.0,
    seen=Seen([Window(60.0, 6.0, 2000)], 200.0, 2050),
    emulator_share=5.0,
    streams=2000,
    ended=0,
    lateness=[0.01, 0.03],
    collections=[0.02],
    noticed=[0.1],
    samples=1,
)


def shown(rows: list[Row]) -> dict[str, Row]:
    return {row.what.partition(": ")[2]: row for row in rows if not row.what.startswith("from")}


def of_waiting(**different: object) -> dict[str, Row]:
    # The number of triggerers is part of what is measured, and has a colon too.
    rows = waiting_rows(2000, STORED, Waiting(**{**vars(WAITING), **different}))
    return {row.what.removeprefix("2000 inboxes, triggerers: 2: "): row for row in rows}


@pytest.mark.parametrize("template", [files.ASSETS, files.DECORATED])
def test_every_inbox_is_in_one_file(template: str, tmp_path: Path) -> None:
    assert files.write_files(tmp_path, template, count=25, per_file=10) == 3
    texts = [path.read_text() for path in sorted(tmp_path.iterdir())]
    for text in texts:
        compile(text, "watched.py", "exec")
    assert [
        f"range({first}, {end})" in text
        for (first, end), text in zip([(0, 10), (10, 20), (20, 25)], texts, strict=True)
    ] == [True] * 3


@pytest.mark.parametrize(("count", "expected"), [(1, 1), (1000, 1), (1001, 2), (10_000, 10)])
def test_there_are_as_many_triggerers_as_watchers_need(count: int, expected: int) -> None:
    assert len(set(triggerers(count))) == expected


def test_messages_go_to_different_inboxes() -> None:
    assert chosen_of(3, 15) == ["inbox_0", "inbox_1", "inbox_2"]
    assert len(set(chosen_of(10_000, 15))) == 15


def test_dag_files_are_shown_by_their_time_and_their_triggers() -> None:
    rows = shown(stored_rows("@inbox_dag", 2000, STORED))
    assert rows["time to parse a file of 100 inboxes"].ours.median == 2
    assert rows["rows of triggers"].ours.median == 2000


def test_what_waiting_triggerers_use_is_shown_per_1000_inboxes() -> None:
    rows = of_waiting()
    assert rows[f"CPU of {RUNNERS}, per 1000 inboxes"].ours.median == pytest.approx(5)
    assert rows[f"CPU of {SUPERVISORS}, per 1000 inboxes"].ours.median == pytest.approx(10)
    assert rows["memory, per 1000 inboxes"].ours.median == 200
    assert rows["polls made, of those due"].ours.median == pytest.approx(100)
    assert rows["put to event"].ours.median == 1
    assert [what for what, row in rows.items() if row.met is False] == []


@pytest.mark.parametrize(
    ("different", "what"),
    [
        ({"unassigned": 5}, "triggers that no triggerer runs"),
        ({"late": 1}, "triggerers without a heartbeat for 30 s"),
        ({"streams": 1990}, "inboxes without an event stream"),
        ({"blocked": 1}, "warnings of a blocked event loop"),
        ({"polls": 1700}, "polls made, of those due"),
        ({"noticed": [], "samples": 1}, "messages without an event after 60 s"),
        ({"load": Load(60.0, {**LOAD.used, MACHINE: 60 * 1000.0})}, f"CPU of {MACHINE}"),
    ],
)
def test_a_limit_that_is_met_is_named(different: dict[str, object], what: str) -> None:
    rows = of_waiting(**different)
    assert [each for each, row in rows.items() if row.met is False] == [what]
    (line,) = limits_met(list(rows.values()))
    assert what in line


def test_triggers_that_are_not_in_the_database_are_missing() -> None:
    rows = waiting_rows(2000, Stored([1.0], 900.0, rows=1500), WAITING)
    assert [row.ours.median for row in rows if row.met is False] == [500]


def test_a_window_in_which_not_each_inbox_is_polled_says_nothing_of_polls() -> None:
    short = of_waiting(load=Load(5.0, dict.fromkeys(GROUPS, 0.1)), polls=0)
    assert "polls made, of those due" not in short


def test_one_event_loop_is_shown_in_the_same_way() -> None:
    rows = {row.what.removeprefix(f"2000 inboxes, {BARE}: "): row for row in bare_rows(WATCHED)}
    assert rows["CPU, per 1000 inboxes"].ours.median == pytest.approx(5)
    assert rows["CPU, of one core"].ours.median == pytest.approx(10)
    assert rows["longest lateness of the event loop"].ours.median == 30
    assert rows["longest collection of garbage"].ours.median == 20
    assert rows["times that Airflow would call the loop blocked"].met is True
    late = bare_rows(Bare(**{**vars(WATCHED), "lateness": [0.01, 0.15], "ended": 2}))
    assert [row.ours.median for row in late if row.met is False] == [2, 1]


def test_a_message_is_noticed_with_the_first_event_after_it() -> None:
    noticed = Noticed(
        [(10.0, 0.5), (20.0, 0.25)], [(16.0, 0.125)], [("a", 5.0), ("b", 11.0), ("a", 12.0), ("a", 72.0)]
    )
    assert noticed_seconds(noticed, {"a": 10.0, "b": 10.5, "c": 11.0}) == [2.0, 0.5]
    assert noticed.lateness(15.0, 25.0) == [0.25]
    assert noticed.collections(15.0, 25.0) == [0.125]


async def test_a_hollow_triggerer_ends_when_it_should() -> None:
    ended, callbacks = asyncio.Event(), list(gc.callbacks)
    ended.set()
    assert (await watch(0, ended)).ended == 0
    assert gc.callbacks == callbacks
