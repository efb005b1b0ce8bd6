"""Draws rows as SVG. Needs matplotlib, which only the environment of the benchmarks has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.results import Figure, Row, Rows

QUICK = "\n(quick: this shows that it works, and measures nothing)"
WIDTH, HEIGHT, BAR_HEIGHT, LEGEND_HEIGHT = 7.0, 4.0, 0.6, 0.12
"""Inches: of a plot, of one with curves, of each bar, and of each part of a stack."""


@dataclass(frozen=True)
class Plot:
    """
    How the points of a plot are drawn.

    :param y: what the figures are, with their unit.
    :param x: what the numbers are that curves run over; "" for bars, which have names.
    :param kind: ``curves``; ``bars``, one for each point; or ``stacks``, in which the curves are the parts of
        each bar.
    :param wide: whether the figures differ so much that the axis is logarithmic.
    """

    title: str
    y: str
    x: str = ""
    kind: Literal["curves", "bars", "stacks"] = "bars"
    wide: bool = False


PLOTS = {
    "scale-runs": Plot("DAG runs started", "per second", "workers of the API server", "curves"),
    "scale-neighbor": Plot("Delay of another DAG", "seconds from queued to the first task running"),
    "scale-finished": Plot("Messages that become finished runs", "per minute", wide=True),
    "scale-latency-steps": Plot("Steps from a message to its DAG run", "seconds", kind="stacks"),
}
"""By their names, which are those of the files too."""

Points = dict[str, dict[Any, Figure]]
"""The figures of each curve, by what they stand over."""


def points_of(rows: Iterable[Row], plot: str) -> Points:
    """The points of a plot, by curve, in the order of the rows."""
    points: Points = {}
    for row in rows:
        if row.point is not None and row.point.plot == plot:
            points.setdefault(row.point.curve, {})[row.point.x] = row.ours
    return points


def draw(rows: Rows, folder: Path, *, quick: bool) -> list[Path]:
    """
    Draw rows; return the files.

    :param folder: created if it is missing.
    :param quick: whether the titles say that nothing was measured.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, plot in PLOTS.items():
        if points := points_of((row for members in rows.values() for row in members), name):
            files.append(folder / f"{name}.svg")
            _draw(plot, points, files[-1], QUICK if quick else "")
    return files


def _draw(plot: Plot, points: Points, path: Path, remark: str) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    bars = len({x for curve in points.values() for x in curve})
    height = HEIGHT if plot.kind == "curves" else 1.2 + BAR_HEIGHT * bars
    height += len(points) * LEGEND_HEIGHT if plot.kind == "stacks" else 0
    # Text stays text, which is smaller and can be searched; the ids in the file are the same each time.
    with pyplot.rc_context({"svg.fonttype": "none", "svg.hashsalt": "workflow", "font.size": 9}):
        figure, axes = pyplot.subplots(figsize=(WIDTH, height), layout="constrained")
        axes.set_title(f"{plot.title}{remark}")
        {"curves": _curves, "bars": _bars, "stacks": _stacks}[plot.kind](axes, plot, points)
        figure.savefig(path, metadata={"Date": None, "Title": plot.title})
        pyplot.close(figure)


def _curves(axes: Any, plot: Plot, points: Points) -> None:
    for curve, figures in points.items():
        medians = [figure.median for figure in figures.values()]
        errors = _quartiles(list(figures.values()))
        axes.errorbar(list(figures), medians, yerr=errors, marker="o", capsize=3, label=curve)
    axes.set_xticks(sorted({x for curve in points.values() for x in curve}))
    axes.set_xlabel(plot.x)
    axes.set_ylabel(plot.y)
    axes.set_ylim(bottom=0)
    axes.legend()


def _bars(axes: Any, plot: Plot, points: Points) -> None:
    ((_, figures),) = points.items()
    medians = [figure.median for figure in figures.values()]
    axes.barh(list(figures), medians, xerr=_quartiles(list(figures.values())), capsize=3)
    if plot.wide:
        axes.set_xscale("log")
    axes.set_xlabel(plot.y)
    axes.invert_yaxis()


def _stacks(axes: Any, plot: Plot, points: Points) -> None:
    begins: dict[str, float] = {}
    for curve, figures in points.items():
        widths = [figure.median for figure in figures.values()]
        axes.barh(list(figures), widths, left=[begins.get(x, 0.0) for x in figures], label=curve)
        begins |= {x: begins.get(x, 0.0) + figure.median for x, figure in figures.items()}
    axes.set_xlabel(f"{plot.y}, medians of each part")
    axes.invert_yaxis()
    axes.figure.legend(loc="outside lower center", ncols=2)


def _quartiles(figures: Sequence[Figure]) -> list[list[float]]:
    """How far the quartiles are below and above the medians."""
    below = [figure.median - figure.low for figure in figures]
    return [below, [figure.high - figure.median for figure in figures]]
