"""
``python -m tools.structure``: measures the structure of the package, beside its limits.

``--list`` names the counted items. ``--lower`` lowers each limit of ``tests/unit/structure_limits.toml`` that
is above its figure; no limit ever rises but by hand.

Concepts are the classes, and the functions and methods with a public name. The length of a function is that
of its signature and body without its docstring. :mod:`tests.structure.trace` traces the path of a message.
"""

from __future__ import annotations

import argparse
import ast
import json
import statistics
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tools.airflow_settings import environment

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "airflow_provider_workflow"
LONG_FUNCTION_LINES = 40
LIMITS = ROOT / "tests" / "unit" / "structure_limits.toml"
"""Figures that the package must not exceed."""
PATHS = {"dispatch": "dispatch operator", "sensor": "deferred sensor"}
"""The traces of :mod:`tests.structure.trace`, and their names in the table."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

Figures = dict[str, float]
Names = dict[str, list[str]]


def read(folder: Path) -> dict[str, str]:
    """The sources of the modules of a package, by name: ``client`` is ``client/__init__.py``."""
    sources = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        sources[".".join(part for part in parts if part != "__init__")] = path.read_text()
    return sources


def concepts(tree: ast.Module) -> int:
    """The number of classes, and of functions and methods with a public name."""
    return sum(
        isinstance(node, ast.ClassDef) or (isinstance(node, FUNCTIONS) and not node.name.startswith("_"))
        for node in ast.walk(tree)
    )


def long_functions(name: str, tree: ast.Module) -> Iterator[str]:
    """The functions and methods of a module that are too long, with their length."""
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS):
            lines = _length(node)
            if ast.get_docstring(node) is not None:
                lines -= _length(node.body[0])
            if lines > LONG_FUNCTION_LINES:
                yield f"{name}.{node.name} ({lines} lines)"


def _length(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def measure(folder: Path = PACKAGE) -> tuple[Figures, Names]:
    """
    The figures that need no running code, and the names of what was counted.

    :param folder: of the package.
    """
    sources = read(folder)
    trees = {name: ast.parse(text) for name, text in sources.items()}
    lines = {name: text.splitlines() for name, text in sources.items()}
    emulator = [name for name in sources if name.split(".")[0] == "emulator"]
    figures: Figures = {}
    for part, members in {
        "without emulator": sources.keys() - set(emulator),
        "emulator": emulator,
    }.items():
        figures[f"files, {part}"] = len(members)
        figures[f"lines, {part}"] = sum(len(lines[name]) for name in members)
        figures[f"concepts, {part}"] = sum(concepts(trees[name]) for name in members)
    figures["lines of a file, maximum"] = max(map(len, lines.values()))
    widths = [len(line) for module in lines.values() for line in module if line.strip()]
    figures["mean width of a line"] = round(statistics.mean(widths), 2)
    long = [text for name, tree in trees.items() for text in long_functions(name, tree)]
    label = f"functions over {LONG_FUNCTION_LINES} lines"
    return {**figures, label: len(long)}, {label: long}


def trace() -> tuple[Figures, Names]:
    """
    The files and functions on the path of a message, in the order of the first calls.

    :raises RuntimeError: the trace failed; the text has its last lines.
    """
    figures: Figures = {}
    names: Names = {}
    for path, label in PATHS.items():
        files = _traced(path)
        figures[f"files per message, {label}"] = len(files)
        figures[f"functions per message, {label}"] = sum(map(len, files.values()))
        names[f"functions per message, {label}"] = [
            f"{file}: {', '.join(functions)}" for file, functions in files.items()
        ]
    return figures, names


def _traced(path: str) -> dict[str, list[str]]:
    """The functions of each file, traced in a process of its own."""
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [sys.executable, "-m", "tests.structure.trace", path],
            cwd=ROOT,
            env=environment(Path(home), Path(home), 0, {}),
            capture_output=True,
            text=True,
        )
    if done.returncode != 0:
        raise RuntimeError(f"The trace failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    files: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return files


def limits() -> Figures:
    """The limit of each figure that has one."""
    stored: Figures = tomllib.loads(LIMITS.read_text())
    return stored


def lower(figures: Figures) -> None:
    """Lower each limit that is above its figure to it."""
    text = LIMITS.read_text()
    for label, limit in limits().items():
        if figures[label] < limit:
            text = text.replace(f'"{label}" = {limit:g}\n', f'"{label}" = {figures[label]:g}\n')
    LIMITS.write_text(text)


def main(arguments: list[str] | None = None) -> None:
    """Measure and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tools.structure", description=__doc__)
    parser.add_argument("--lower", action="store_true", help="lower the limits to the figures")
    parser.add_argument("--list", action="store_true", help="name the counted items")
    options = parser.parse_args(arguments)
    figures, names = (measured | traced for measured, traced in zip(measure(), trace(), strict=True))
    print(f"{'':40}  {'now':>8}  {'limit':>8}")
    for label, value in figures.items():
        print(f"{label:40}  {value:>8,g}  {limits()[label]:>8,g}")
    if options.lower:
        lower(figures)
    for label, items in names.items() if options.list else ():
        print("\n".join([f"\n{label}:", *(f"  {item}" for item in items)]))


if __name__ == "__main__":
    main()
