"""The benchmarks that need no Airflow, in their shortest form, and the DAG files of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import watchers
from benchmarks.meter import MACHINE, Window
from benchmarks.peers.trial import Counts
from benchmarks.peers.ways import DAGS, Way
from benchmarks.scale.finished import WAYS, Finished, rows
from benchmarks.waiting import NOTHING, Case
from benchmarks.waiting import rows as rows_of_waiting


@pytest.mark.parametrize("path", sorted(DAGS.glob("*.py")), ids=lambda path: path.stem)
def test_each_file_of_a_peer_makes_the_dag_that_it_is_named_after(path: Path) -> None:
    source = path.read_text()
    compile(source, path.stem, "exec")
    assert f"\ndef {path.stem}(" in source
    assert source.startswith('"""')
    way = Way(path.stem, "", "airflow-provider-workflow", print, watchers.SLEEPING)
    assert 0 < way.lines < len(source.splitlines())


def test_what_a_poll_costs_leaves_out_what_the_process_takes_anyway() -> None:
    def taken(used: float, polls: float) -> watchers.Taken:
        return watchers.Taken(Window(10, {watchers.TRIGGERS: used, watchers.POLLS: polls}), 150, 20)

    cases = [(NOTHING, taken(0.1, 0)), (Case("watchers", 100, watchers.POLLING), taken(0.5, 200))]
    shown = {row.what: row.ours.median for row in rows_of_waiting(cases)}

    assert shown["no triggers: share of one core"] == pytest.approx(1)
    assert shown["100 watchers: share of one core"] == pytest.approx(5)
    assert shown["100 watchers: CPU per 1000 polls"] == pytest.approx(2)
    assert shown["100 watchers: sockets"] == 20


def test_a_rate_is_that_from_the_first_message_to_the_last_finished_run() -> None:
    window = Window(30, {"Airflow": 6.0, "PostgreSQL": 3.0, MACHINE: 30.0})
    finished = Finished(WAYS[1], 3, [(15.0, 1), (30.0, 1)], window)
    shown = {row.what: row.ours.median for row in rows(finished, finished)}

    assert shown["sensor, 3 messages: finished per minute"] == 4
    assert shown["sensor, 3 messages: not finished in time"] == 1
    assert shown["sensor, 3 messages: CPU of Airflow per message"] == 3000
    nothing = Finished(WAYS[0], 3, [], window)
    assert len(rows(nothing, finished)) == 3
    assert rows(finished, nothing)[0].ratio is None


def test_a_message_is_lost_if_no_task_got_it_and_twice_if_more_than_one_did() -> None:
    assert Counts.of(range(3), {0: 1, 1: 4, 9: 1}) == Counts(sent=3, lost=1, twice=1)
