"""What is made of what was seen of the other providers, and the parts that need none of their servers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.benchmarks.peers.idle import NOTHING, Watcher, queue_names
from tests.benchmarks.peers.lines import lines_of_code
from tests.benchmarks.peers.peers import Found, Size, markdown, rows, together
from tests.benchmarks.peers.trial import Counted
from tests.benchmarks.peers.ways import (
    CHANNEL,
    DAGS,
    EVENT,
    NOTICE,
    RABBIT,
    SQS,
    STREAM,
    Way,
    redis_connection,
)
from tests.benchmarks.watchers import Watchers

INSTALLED = "airflow-provider-workflow"


def nothing(_: int) -> None:
    """Send nothing."""


def way(name: str, send: Callable[[int], None] = nothing, *, alone: bool = False) -> Way:
    return Way(name, f"Trigger of {name}", INSTALLED, send, NOTICE, alone)


OURS, THEIRS = way("ours"), way("redis_channel", alone=True)
SEEN = {
    "ours": Found([1.0, 2.0, 3.0], Counted(range(4, 8), Counter({4: 1, 5: 1, 6: 1, 7: 2})), [0.5, 0.7]),
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


def test_the_table_has_a_line_for_each_way() -> None:
    _, _, ours, theirs = markdown([OURS, THEIRS], SEEN).splitlines()
    assert ours.startswith(f"| {OURS} | 2.0 | 0 of 4 | 1 | 0.6 % |")
    assert theirs.startswith(f"| {THEIRS} | none in time | 3 of 4 | 1 | 4.0 % |")


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


@pytest.mark.parametrize("watcher", [NOTICE, EVENT, SQS, STREAM, RABBIT, CHANNEL, NOTHING])
def test_the_dag_file_of_idle_triggers_is_python(watcher: Watcher) -> None:
    watchers = Watchers(len(queue_names()), watcher.imported, watcher.trigger or "None")
    compile(watchers.dag_file, "watchers.py", "exec")
    assert {f"inbox_{number}" for number in range(watchers.count)} == set(queue_names())


def test_the_database_of_a_redis_address_is_kept() -> None:
    assert '"db": 7' in redis_connection("redis://127.0.0.1:6379/7")
    assert '"db": 0' in redis_connection("redis://127.0.0.1:6379")
