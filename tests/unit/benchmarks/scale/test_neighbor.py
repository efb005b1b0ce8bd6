"""What is shown of a DAG that others delay."""

from __future__ import annotations

from benchmarks.scale.neighbor import Probed, rows


def test_the_delay_is_shown_with_its_parts() -> None:
    found = {row.what: row for row in rows([Probed("100 runs", [90, 80], [(1, 2, 3), (3, 4, 5)], late=1)])}
    delay = found["100 runs: another DAG, queued to first task running"]
    assert (delay.ours.median, delay.point and delay.point.x) == (9, "100 runs")
    assert found["100 runs: another DAG, queued to running"].ours.median == 2
    assert found["100 runs: another DAG, task queued to task running"].ours.median == 4
    assert found["100 runs: another DAG, no task 180 s after the last"].ours.median == 1
    assert found["100 runs: unfinished runs"].ours.median == 85


def test_a_case_in_which_no_task_began_has_no_delay() -> None:
    found = rows([Probed("100 runs", [100], [], late=3)])
    assert [row.ours.median for row in found] == [3, 100]
