"""Draws rows as SVG. Needs matplotlib, which only the environment of the benchmarks has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.report import Found
from benchmarks.results import Figure, Row

QUICK = "\n(quick: this shows that it works, and measures nothing)"
WIDTH, HEIGHT = 7.0, 4.0
BAR_HEIGHT = 0.6
"""Inches, as are the two above."""
LEGEND_HEIGHT = 0.12
"""For each part of a stack: two stand beside each other."""
SALT = "workflow"
"""Makes the ids in the files the same each time."""


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
    "scale-watchers-cpu": Plot(
        "CPU of watchers that wait", "% of a core, per 1000 inboxes", "inboxes", "curves"
    ),
    "scale-watchers-memory": Plot(
        "Memory of watchers that wait", "MB, per 1000 inboxes", "inboxes", "curves"
    ),
    "scale-watchers-notice": Plot(
        "From a message to the event of its inbox", "seconds", "watched inboxes", "curves"
    ),
    "scale-runs": Plot("DAG runs started", "per second", "workers of the API server", "curves"),
    "scale-neighbor": Plot("Delay of another DAG", "seconds from queued to the first task running"),
    "scale-finished": Plot("Messages that become finished runs", "per minute", wide=True),
    "scale-latency": Plot("From a message to its DAG run", "seconds"),
    "scale-latency-steps": Plot("Steps from a message to its DAG run", "seconds", kind="stacks"),
}
"""By their names, which are those of the files too."""

Points = dict[str, list[tuple[Any, Figure]]]
"""The figures of each curve, by what they stand over."""


def points_of(rows: Iterable[Row], plot: str) -> Points:
    """The points of a plot, by curve; those of a curve over numbers in their order."""
    points: Points = {}
    for row in rows:
        if row.point is not None and row.point.plot == plot:
            points.setdefault(row.point.curve, []).append((row.point.x, row.ours))
    if PLOTS[plot].kind != "curves":
        return points
    return {curve: sorted(every, key=lambda point: point[0]) for curve, every in points.items()}


def draw(found: Found, folder: Path, *, quick: bool) -> list[Path]:
    """
    Draw what was found; return the files.

    :param folder: created if it is missing.
    :param quick: whether the titles say that nothing was measured.
    """
    rows = [row for rows in found.values() for row in rows]
    every = {name: points_of(rows, name) for name in PLOTS}
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for name, points in every.items():
        if points:
            path = folder / f"{name}.svg"
            _draw(PLOTS[name], points, path, QUICK if quick else "")
            drawn.append(path)
    return drawn


def _draw(plot: Plot, points: Points, path: Path, remark: str) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    bars = len({x for every in points.values() for x, _ in every})
    height = HEIGHT if plot.kind == "curves" else 1.2 + BAR_HEIGHT * bars
    height += len(points) * LEGEND_HEIGHT if plot.kind == "stacks" else 0
    # Text stays text, which is smaller and can be searched.
    with pyplot.rc_context({"svg.fonttype": "none", "svg.hashsalt": SALT, "font.size": 9}):
        figure, axes = pyplot.subplots(figsize=(WIDTH, height), layout="constrained")
        axes.set_title(f"{plot.title}{remark}")
        {"curves": _curves, "bars": _bars, "stacks": _stacks}[plot.kind](axes, plot, points)
        figure.savefig(path, metadata={"Date": None, "Title": plot.title})
        pyplot.close(figure)


def _curves(axes: Any, plot: Plot, points: Points) -> None:
    for curve, every in points.items():
        figures = [figure for _, figure in every]
        axes.errorbar(
            [x for x, _ in every],
            [figure.median for figure in figures],
            yerr=_quartiles(figures),
            marker="o",
            capsize=3,
            label=curve,
        )
    axes.set_xticks(sorted({x for every in points.values() for x, _ in every}))
    axes.set_xlabel(plot.x)
    axes.set_ylabel(plot.y)
    axes.set_ylim(bottom=0)
    axes.legend()


def _bars(axes: Any, plot: Plot, points: Points) -> None:
    names, figures = zip(*(point for every in points.values() for point in every), strict=True)
    axes.barh(names, [figure.median for figure in figures], xerr=_quartiles(figures), capsize=3)
    if plot.wide:
        axes.set_xscale("log")
    axes.set_xlabel(plot.y)
    axes.invert_yaxis()


def _stacks(axes: Any, plot: Plot, points: Points) -> None:
    begins: dict[str, float] = {}
    for curve, every in points.items():
        values = {x: figure.median for x, figure in every}
        left = [begins.get(x, 0.0) for x in values]
        axes.barh(list(values), list(values.values()), left=left, label=curve)
        begins |= {x: begins.get(x, 0.0) + value for x, value in values.items()}
    axes.set_xlabel(f"{plot.y}, medians of each part")
    axes.invert_yaxis()
    axes.figure.legend(loc="outside lower center", ncols=2)


def _quartiles(figures: Sequence[Figure]) -> list[list[float]]:
    """How far the quartiles are below and above the medians."""
    below = [figure.median - figure.low for figure in figures]
    return [below, [figure.high - figure.median for figure in figures]]


def shown(drawn: Iterable[Path]) -> str:
    """The files, for the user."""
    return ", ".join(str(path) for path in drawn) or "nothing, as nothing that was measured has a plot"
