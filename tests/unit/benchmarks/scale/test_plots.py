"""Which figures a plot has, and that it is drawn where matplotlib is installed."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.results import Point, Row, alone
from benchmarks.scale.plots import PLOTS, draw, points_of, shown
from benchmarks.scale.wanted import PARTS


def row(plot: str, curve: str, x: float | str, samples: list[float]) -> Row:
    return alone("it", "s", samples, point=Point(plot, curve, x))


ROWS = [
    row("scale-runs", "one task", 4, [30.0]),
    row("scale-runs", "one task", 1, [10.0, 20.0]),
    row("scale-runs", "4 tasks", 1, [40.0]),
    row("scale-finished", "messages", "sensor", [7.0]),
    row("scale-latency-steps", "a", "ours", [1.0]),
    row("scale-latency-steps", "b", "ours", [2.0]),
    row("scale-latency-steps", "a", "floor", [3.0]),
    alone("not drawn", "s", [1.0]),
]


def test_a_curve_has_its_figures_in_the_order_of_their_numbers() -> None:
    points = points_of(ROWS, "scale-runs")
    assert {curve: [(x, figure.median) for x, figure in every] for curve, every in points.items()} == {
        "one task": [(1, 15), (4, 30)],
        "4 tasks": [(1, 40)],
    }


def test_bars_keep_their_order() -> None:
    points = points_of(ROWS, "scale-latency-steps")
    assert {curve: [x for x, _ in every] for curve, every in points.items()} == {
        "a": ["ours", "floor"],
        "b": ["ours"],
    }


def test_every_part_has_a_plot_and_names_only_plots_that_there_are() -> None:
    for part in PARTS:
        module = import_module(f"benchmarks.scale.{part.partition('-')[2]}")
        source = inspect.getsource(module)
        named = {value for value in vars(module).values() if isinstance(value, str) and value in PLOTS}
        assert named, part
        assert "Point(" in source


def test_what_was_drawn_is_shown() -> None:
    assert shown([Path("a.svg"), Path("b.svg")]) == "a.svg, b.svg"
    assert shown([]).startswith("nothing")


def test_plots_are_drawn_the_same_each_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="only the environment of the benchmarks has matplotlib")
    drawn = draw({"scale": ROWS}, tmp_path / "new", quick=True)
    assert [path.name for path in drawn] == [
        "scale-runs.svg",
        "scale-finished.svg",
        "scale-latency-steps.svg",
    ]
    texts = [path.read_text() for path in drawn]
    assert all("<svg" in text and "measures nothing" in text for text in texts)
    assert [f"<title>{PLOTS[path.stem].title}</title>" in path.read_text() for path in drawn] == [True] * 3
    again = draw({"scale": ROWS}, tmp_path / "new", quick=False)
    assert all("measures nothing" not in path.read_text() for path in again)
    assert [path.read_text() for path in draw({"scale": ROWS}, tmp_path, quick=True)] == texts
