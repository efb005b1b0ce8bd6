"""
``python -m tools.structure``: measures the structure of the package, beside its limits.

``--list`` names the counted items. ``--lower`` lowers each limit of ``tests/unit/structure_limits.toml`` that
is above its figure; no limit ever rises but by hand.

Lines of code exclude blank lines, comments and docstrings. Concepts are the classes, and the functions and
methods with a public name. The length of a function is that of its signature and body without its docstring.
Imports in functions and under ``TYPE_CHECKING`` count. :mod:`tests.structure.trace` traces the path of a
message.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import tokenize
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAME = "airflow_provider_workflow"
LONG_FUNCTION_LINES = 40
TRACE_SECONDS = 120
LIMITS = ROOT / "tests" / "unit" / "structure_limits.toml"
"""Figures that the package must not exceed."""
PATHS = {"dispatch": "dispatch operator", "sensor": "deferred sensor"}
"""The traces of :mod:`tests.structure.trace`, and their names in the table."""
NO_CODE = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

Figures = dict[str, float]
Names = dict[str, list[str]]


@dataclass(frozen=True)
class Module:
    """
    :param name: within the package: ``client.exchange``, or ``client`` for ``client/__init__.py``.
    :param text: its source.
    """

    name: str
    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text, str(self.path))

    @property
    def lines(self) -> int:
        """The length of the file."""
        return len(self.text.splitlines())

    @property
    def code_lines(self) -> int:
        """The lines that are neither blank nor only a comment or a docstring."""
        docstrings = {
            (node.value.lineno, node.value.col_offset)
            for node in ast.walk(self.tree)
            if _is_string(node) and isinstance(node, ast.Expr)
        }
        numbers: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type not in NO_CODE and token.start not in docstrings:
                numbers.update(range(token.start[0], token.end[0] + 1))
        lines = self.text.splitlines()
        return sum(bool(lines[number - 1].strip()) for number in numbers)

    @property
    def widths(self) -> list[int]:
        """The characters of each line that is not blank."""
        return [len(line) for line in self.text.splitlines() if line.strip()]

    @property
    def concepts(self) -> int:
        """The number of its classes, and of its functions and methods with a public name."""
        return sum(
            isinstance(node, ast.ClassDef) or (isinstance(node, FUNCTIONS) and not node.name.startswith("_"))
            for node in ast.walk(self.tree)
        )

    @property
    def functions(self) -> Iterator[tuple[str, int]]:
        """Each function or method and its length, in lines."""
        for node in ast.walk(self.tree):
            if isinstance(node, FUNCTIONS):
                first = node.body[0]
                docstring = _length(first) if _is_string(first) else 0
                yield f"{self.name}.{node.name}", _length(node) - docstring


def _is_string(node: ast.AST) -> bool:
    """Whether a statement is only a string: a docstring, also of a variable."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _length(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def read(folder: Path) -> dict[str, Module]:
    """The modules of a package, by name."""
    modules = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        modules[name] = Module(name, path, path.read_text())
    return modules


def imports(modules: dict[str, Module], package: str) -> dict[str, set[str]]:
    """The modules that each module imports."""
    graph: dict[str, set[str]] = {}
    for name, module in modules.items():
        graph[name] = set()
        for dotted in _imported_names(module.tree):
            root, _, within = dotted.partition(".")
            parts = within.split(".") if root == package else []
            names = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
            imported = next((name for name in names if name in modules), name)
            graph[name] |= {imported} - {name}
    return graph


def _imported_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """A chain of modules that import each other, or an empty list."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        chain: list[str] = error.args[1]
        return chain[::-1]
    return []


def measure(folder: Path = ROOT / NAME) -> tuple[Figures, Names]:
    """
    The figures that need no running code, and the names of what was counted.

    :param folder: of the package.
    """
    modules = read(folder)
    functions = [function for module in modules.values() for function in module.functions]
    long = [f"{name} ({lines} lines)" for name, lines in functions if lines > LONG_FUNCTION_LINES]
    chain = cycle(imports(modules, folder.name))
    figures: Figures = {
        **_sizes(list(modules.values())),
        "import cycles": int(bool(chain)),
        "functions": len(functions),
        f"functions over {LONG_FUNCTION_LINES} lines": len(long),
    }
    names = {
        "import cycles": [" -> ".join(chain)] if chain else [],
        f"functions over {LONG_FUNCTION_LINES} lines": long,
    }
    return figures, names


def _sizes(modules: list[Module]) -> Figures:
    emulator = [module for module in modules if module.name.split(".")[0] == "emulator"]
    provider = [module for module in modules if module not in emulator]
    lengths = [module.lines for module in modules]
    widths = [width for module in modules for width in module.widths]
    return {
        **_counts("without emulator", provider),
        **_counts("emulator", emulator),
        "lines of a file, median": statistics.median(lengths),
        "lines of a file, maximum": max(lengths),
        "mean width of a line": round(statistics.mean(widths or [0]), 2),
    }


def _counts(part: str, modules: list[Module]) -> Figures:
    return {
        f"files, {part}": len(modules),
        f"lines, {part}": sum(module.lines for module in modules),
        f"lines of code, {part}": sum(module.code_lines for module in modules),
        f"concepts, {part}": sum(module.concepts for module in modules),
    }


def trace() -> tuple[Figures, Names]:
    """
    The files and functions on the path of a message, in the order of the first calls.

    :raises RuntimeError: the trace failed; the text has its last lines.
    """
    figures: Figures = {}
    names: Names = {}
    for label, files in zip(PATHS.values(), _traced(), strict=True):
        figures[f"files per message, {label}"] = len(files)
        figures[f"functions per message, {label}"] = sum(map(len, files.values()))
        names[f"functions per message, {label}"] = [
            f"{path}: {', '.join(functions)}" for path, functions in files.items()
        ]
    return figures, names


def _traced() -> list[dict[str, list[str]]]:
    """The functions of each file, for each of :data:`PATHS`."""
    with tempfile.TemporaryDirectory() as home:
        processes = [_start_trace(path, home) for path in PATHS]
        try:
            outputs = [process.communicate(timeout=TRACE_SECONDS) for process in processes]
        finally:
            for process in processes:
                process.kill()
    for process, (output, errors) in zip(processes, outputs, strict=True):
        if process.returncode != 0:
            raise RuntimeError(f"The trace failed:\n{output[-2000:]}{errors[-2000:]}")
    return [json.loads(output.splitlines()[-1]) for output, _ in outputs]


def _start_trace(path: str, home: str) -> subprocess.Popen[str]:
    """Start a trace in a process without the environment of the user's Airflow and proxies."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("AIRFLOW_") and not name.lower().endswith("_proxy")
    }
    return subprocess.Popen(
        [sys.executable, "-m", "tests.structure.trace", path],
        cwd=ROOT,
        env={**environment, "AIRFLOW_HOME": f"{home}/{path}", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


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


def table(figures: Figures) -> Iterator[str]:
    """The lines of the table."""
    width = max(map(len, figures))
    yield f"{'':{width}}  {'now':>8}  {'limit':>8}"
    for label, value in figures.items():
        limit = f"{limits()[label]:,g}" if label in limits() else ""
        yield f"{label:{width}}  {value:>8,g}  {limit:>8}".rstrip()


def listing(names: Names) -> Iterator[str]:
    """The lines that name the counted items."""
    for label, items in names.items():
        yield f"\n{label}:"
        yield from (f"  {item}" for item in items)


def main(arguments: Iterable[str] | None = None) -> None:
    """Measure and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tools.structure", description=__doc__)
    parser.add_argument("--lower", action="store_true", help="lower the limits to the figures")
    parser.add_argument("--list", action="store_true", help="name the counted items")
    options = parser.parse_args(None if arguments is None else list(arguments))
    figures, names = measure()
    traced_figures, traced_names = trace()
    print("\n".join(table(figures | traced_figures)))
    if options.lower:
        lower(figures | traced_figures)
    if options.list:
        print("\n".join(listing(names | traced_names)))


if __name__ == "__main__":
    main()
