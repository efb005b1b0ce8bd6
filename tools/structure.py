"""
``python -m tools.structure``: measures the structure of the package.

``--list`` names the counted items. The figures are for looking: nothing fails because one grows.

Code lines are those without docstrings, comments, blank lines and imports. Concepts are the classes, and the
functions and methods with a public name. Decisions are the branches of a function: each condition, loop,
comprehension, ``except``, ``case``, and further operand of ``and`` and ``or``.
:mod:`tests.structure.trace` traces the path of a message.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.airflow_settings import environment

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "airflow_provider_workflow"
MANY_DECISIONS = 14
PATHS = {"dispatch": "dispatch operator", "sensor": "deferred sensor"}
"""The traces of :mod:`tests.structure.trace`, and their names in the table."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BRANCHES = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.comprehension,
    ast.ExceptHandler,
    ast.Assert,
    ast.match_case,
)
NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}

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


def code_lines(source: str) -> int:
    """The number of lines with code, without docstrings, comments, blank lines and imports."""
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text or isinstance(node, (ast.Import, ast.ImportFrom)):
            left_out.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - left_out)


def decisions(function: ast.AST) -> int:
    """The number of branches of a function, without those of the functions inside it."""
    number = 0
    for node in ast.iter_child_nodes(function):
        if isinstance(node, FUNCTIONS):
            continue
        number += isinstance(node, BRANCHES) + decisions(node)
        if isinstance(node, ast.BoolOp):
            number += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            number += len(node.ifs)
    return number


def functions_with_many_decisions(name: str, tree: ast.Module) -> Iterator[str]:
    """The functions and methods of a module that decide too much to be read at once."""
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS) and (number := decisions(node)) > MANY_DECISIONS:
            yield f"{name}.{node.name} ({number} decisions)"


def measure(folder: Path = PACKAGE) -> tuple[Figures, Names]:
    """
    The figures that need no running code, and the names of what was counted.

    :param folder: of the package.
    """
    sources = read(folder)
    trees = {name: ast.parse(text) for name, text in sources.items()}
    emulator = [name for name in sources if name.split(".")[0] == "emulator"]
    figures: Figures = {}
    for part, members in {
        "without emulator": sources.keys() - set(emulator),
        "emulator": emulator,
    }.items():
        figures[f"code lines, {part}"] = sum(code_lines(sources[name]) for name in members)
        figures[f"concepts, {part}"] = sum(concepts(trees[name]) for name in members)
    many = [text for name, tree in trees.items() for text in functions_with_many_decisions(name, tree)]
    label = f"functions with over {MANY_DECISIONS} decisions"
    return {**figures, label: len(many)}, {label: many}


def trace() -> tuple[Figures, Names]:
    """
    The files and functions on the path of a message, in the order of the first calls.

    :raises RuntimeError: the trace failed; the text has its last lines.
    """
    figures: Figures = {}
    names: Names = {}
    for path, label in PATHS.items():
        traced = _traced(path)
        files: dict[str, list[str]] = traced["functions"]
        figures[f"files per message, {label}"] = len(files)
        figures[f"functions per message, {label}"] = sum(map(len, files.values()))
        figures[f"calls per message, {label}"] = traced["calls"]
        figures[f"changes of file per message, {label}"] = traced["file_changes"]
        figures[f"requests per message, {label}"] = traced["requests"]
        names[f"functions per message, {label}"] = [
            f"{file}: {', '.join(functions)}" for file, functions in files.items()
        ]
    return figures, names


def _traced(path: str) -> dict[str, Any]:
    """What :mod:`tests.structure.trace` counts, in a process of its own."""
    with tempfile.TemporaryDirectory() as home:
        process = subprocess.run(
            [sys.executable, "-m", "tests.structure.trace", path],
            cwd=ROOT,
            env=environment(Path(home), Path(home), 0, {}),
            capture_output=True,
            text=True,
        )
    if process.returncode != 0:
        raise RuntimeError(f"The trace failed:\n{process.stdout[-2000:]}{process.stderr[-2000:]}")
    counted: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return counted


def main(arguments: list[str] | None = None) -> None:
    """Measure and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tools.structure", description=__doc__)
    parser.add_argument("--list", action="store_true", help="name the counted items")
    options = parser.parse_args(arguments)
    figures, names = (
        own_figures | traced_figures for own_figures, traced_figures in zip(measure(), trace(), strict=True)
    )
    for label, value in figures.items():
        print(f"{label:46}  {value:>8,g}")
    for label, items in names.items() if options.list else ():
        print("\n".join([f"\n{label}:", *(f"  {item}" for item in items)]))


if __name__ == "__main__":
    main()
