"""What is made of what was seen of the other providers, and the parts that need none of their servers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from benchmarks.peers.idle import NOTHING, Watcher, queue_names
from benchmarks.peers.lines import lines_of_code
from benchmarks.peers.peers import Found, Idle, Size, markdown, rows, together
from benchmarks.peers.polls import POLLS_VARIABLE, counting, polls_file, polls_in
from benchmarks.peers.trial import Counted
from benchmarks.peers.ways import (
    CHANNEL,
    DAGS,
    EVENT,
    NOTICE,
    POLLED_EVENT,
    POLLED_NOTICE,
    POLLED_SQS,
    RABBIT,
    SQS,
    STREAM,
    Way,
    redis_connection,
)
from benchmarks.process import Seen, Window
from benchmarks.watchers import Watchers

EVERY_WATCHER = (
    NOTICE,
    EVENT,
    SQS,
    STREAM,
    RABBIT,
    CHANNEL,
    POLLED_NOTICE,
    POLLED_EVENT,
    POLLED_SQS,
    NOTHING,
)
INSTALLED = "airflow-provider-workflow"


def nothing(_: int) -> None:
    """Send nothing."""


def way(name: str, send: Callable[[int], None] = nothing, *, alone: bool = False) -> Way:
    return Way(name, f"Trigger of {name}", INSTALLED, send, NOTICE, alone=alone)


OURS, THEIRS = way("ours"), way("redis_channel", alone=True)
SEEN = {
    "ours": Found(
        [1.0, 2.0, 3.0], Counted(range(4, 8), Counter({4: 1, 5: 1, 6: 1, 7: 2})), [0.5, 0.7], [1, 3]
    ),
    "redis_channel": Found([None, None, None], Counted(range(4, 8), Counter({5: 3})), [4.0]),
}


def test_a_message_is_lost_if_no_task_got_it_and_twice_if_more_than_one_did() -> None:
    counted = Counted(range(3), Counter({0: 1, 1: 4, 9: 1}))
    assert (counted.lost, counted.twice) == (1, 1)


def test_rows_show_what_is_promised_and_no_time_where_there_is_none() -> None:
    found = rows([OURS, THEIRS], SEEN, Size(kills=2))
    shown = {row.what: row for row in found}
    ours, theirs = str(OURS), str(THEIRS)
    assert shown[f"{ours}: sent to its task running"].ours.median == 2
    assert f"{theirs}: sent to its task running" not in shown
    assert shown[f"{theirs}: not handled in time"].ours.median == 3
    lost = "4 messages among 2 kills of the triggerer: lost"
    assert (shown[f"{ours}, {lost}"].ours.median, shown[f"{ours}, {lost}"].met) == (0, True)
    assert (shown[f"{theirs}, {lost}"].ours.median, shown[f"{theirs}, {lost}"].met) == (3, None)
    assert shown[f"{ours}: CPU of 10 idle triggers"].ours.median == pytest.approx(0.6)
    assert shown[f"{ours}: CPU per 1000 polls"].ours.median == 2
    assert f"{theirs}: CPU per 1000 polls" not in shown


def test_what_a_triggerer_takes_anyway_does_not_count() -> None:
    polled = replace(way("ours"), poller=POLLED_NOTICE)
    windows = {
        NOTHING: [Window(10, 0.1, 0)],
        NOTICE: [Window(10, 0.3, 0)],
        POLLED_NOTICE: [Window(10, 0.5, 20)],
    }
    idle = Idle({watcher: Seen(seen, 0, 0) for watcher, seen in windows.items()})
    assert idle.shares(polled) == pytest.approx([2.0])
    assert idle.per_1000_polls(polled) == pytest.approx([20.0])
    assert idle.per_1000_polls(way("rabbitmq_queue")) == []


def test_polls_are_counted_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    with polls_file() as file:
        monkeypatch.setenv(POLLS_VARIABLE, str(file))
        poll = counting(max)
        assert (poll(1, 2), poll([3], key=abs), polls_in(file)) == (2, 3, 2)


def test_the_table_has_a_line_for_each_way() -> None:
    _, _, ours, theirs = markdown([OURS, THEIRS], SEEN).splitlines()
    assert ours.startswith(f"| {OURS} | 2.0 | 0 of 4 | 1 | 0.6 % | 2.00 s |")
    assert theirs.startswith(f"| {THEIRS} | none in time | 3 of 4 | 1 | 4.0 % | no polls |")


def test_a_way_that_blocks_others_has_an_airflow_of_its_own() -> None:
    other = way("sqs_sensor")
    assert together([OURS, THEIRS, other]) == [[OURS, other], [THEIRS]]


def test_lines_of_code_are_those_without_comments_docstring_and_blanks() -> None:
    text = '"""A module\n\nof two lines."""\n\n# A comment\n'
    code = "x = [\n    1,\n]\n\n\ndef f():  # why\n    return x\n"
    assert lines_of_code(text + code) == 5


@pytest.mark.parametrize("path", sorted(DAGS.glob("*.py")), ids=lambda path: path.stem)
def test_each_file_makes_the_dag_that_it_is_named_after(path: object) -> None:
    source = path.read_text()  # type: ignore[attr-defined]
    name = path.stem  # type: ignore[attr-defined]
    compile(source, name, "exec")
    assert f"\ndef {name}(" in source
    assert lines_of_code(source) == way(name).lines


@pytest.mark.parametrize("watcher", EVERY_WATCHER)
def test_the_dag_file_of_idle_triggers_is_python(watcher: Watcher) -> None:
    watchers = Watchers(len(queue_names()), watcher.imported, watcher.trigger or "None")
    compile(watchers.dag_file, "watchers.py", "exec")
    assert {f"inbox_{number}" for number in range(watchers.count)} == set(queue_names())


def test_the_database_of_a_redis_address_is_kept() -> None:
    assert '"db": 7' in redis_connection("redis://127.0.0.1:6379/7")
    assert '"db": 0' in redis_connection("redis://127.0.0.1:6379")
