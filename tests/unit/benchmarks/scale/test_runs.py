"""What is shown of started DAG runs."""

from __future__ import annotations

from benchmarks.results import Point
from benchmarks.scale.load import MACHINE, Load
from benchmarks.scale.runs import POSTGRES, QUICK, RATE, SERVER, Case, Started, rows

LOAD = Load(10.0, {SERVER: 2.0, POSTGRES: 1.0, MACHINE: 5.0})
FOUND = {
    Case(1, 1): [Started(40.0, 100, LOAD), Started(50.0, 100, LOAD)],
    Case(1, 4): [Started(60.0, 100, LOAD), Started(50.0, 100, LOAD)],
    Case(1, 1, slow=True): [Started(20.0, 100, LOAD)],
    Case(2, 1): [Started(44.0, 100, LOAD), Started(55.0, 100, LOAD)],
    Case(2, 1, slow=True): [Started(30.0, 100, LOAD)],
}


def test_each_case_stands_beside_one_task_with_the_fewest_workers() -> None:
    found = [row for row in rows(FOUND, QUICK) if row.unit == "1/s"]
    assert [(row.ours.median, row.ratio and row.ratio.median) for row in found] == [
        (45, None),
        (55, 1.25),
        (20, None),
        (49.5, 1.1),
        (30, 1.5),
    ]
    assert "200 ms" in found[-1].what
    assert "200 ms" in found[-1].beside


def test_a_case_is_a_point_of_its_curve_over_the_workers() -> None:
    points = [row.point for row in rows(FOUND, QUICK) if row.unit == "1/s"]
    assert points[1] == Point(RATE, "4 tasks", 1)
    assert points[3] == Point(RATE, "one task", 2)
    assert points[4] == Point(RATE, "one task, 200 ms latency", 2)


def test_cpu_is_shown_per_run() -> None:
    found = {row.what.rpartition(": ")[2]: row.ours.median for row in rows(FOUND, QUICK)}
    assert found[f"CPU of {SERVER} per DAG run"] == 20
    assert found[f"CPU of {POSTGRES} per DAG run"] == 10
