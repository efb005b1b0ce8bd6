"""
``python -m tools.structure``: measures the structure of the package, and compares it with stored figures.

``--json FILE`` stores the figures, and ``--against FILE`` compares them with stored ones; ``--list`` names
the counted items, and ``--tests`` also counts test cases, which takes a minute.

``--lower`` lowers each limit of ``tests/unit/structure_limits.toml`` that is above its figure; no limit ever
rises but by hand. Lines of code exclude blank lines, comments and docstrings. Concepts are the classes, and
the functions and methods with a public name. The length of a function is that of its signature
and body without its docstring. Imports in functions and under ``TYPE_CHECKING`` count.
:mod:`tests.structure.trace` traces the path of a message.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import tokenize
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NAME = "airflow_provider_workflow"
TESTS = ("tests/unit", "tests/e2e")
SHORT_MODULE_LINES = 60
LONG_FUNCTION_LINES = 40
SHORT_FUNCTION_LINES = 15
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
        found: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type not in NO_CODE and token.start not in docstrings:
                found.update(range(token.start[0], token.end[0] + 1))
        lines = self.text.splitlines()
        return sum(bool(lines[number - 1].strip()) for number in found)

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

    @property
    def is_entry(self) -> bool:
        """Whether its name is fixed by Python: ``__init__.py`` or ``__main__.py``."""
        return self.path.name in ("__init__.py", "__main__.py")


def _is_string(node: ast.AST) -> bool:
    """Whether a statement is only a string: a docstring, also of a variable."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _length(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


class Package:
    """
    The modules of a package, and their imports.

    :param folder: folder of the package.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        modules = (self._module(path) for path in sorted(folder.rglob("*.py")))
        self.modules = {module.name: module for module in modules}

    def _module(self, path: Path) -> Module:
        parts = path.relative_to(self.folder).with_suffix("").parts
        return Module(".".join(part for part in parts if part != "__init__"), path, path.read_text())

    def resolve(self, dotted: str) -> str | None:
        """
        The module of a dotted name within the package.

        :return: None if it belongs only to the package itself.
        """
        parts = dotted.split(".")
        names = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
        return next((name for name in names if name in self.modules), None)

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """The modules that each module imports."""
        return {name: set(self._imported(module)) - {name} for name, module in self.modules.items()}

    def _imported(self, module: Module) -> Iterator[str]:
        for dotted in _imported_names(module.tree):
            package, _, within = dotted.partition(".")
            found = self.resolve(within) if package == self.folder.name else None
            if found is not None:
                yield found

    @cached_property
    def importers(self) -> dict[str, list[str]]:
        """The modules that import each module."""
        return {name: [each for each in self.imports if name in self.imports[each]] for name in self.imports}

    @property
    def cycles(self) -> list[list[str]]:
        """Groups of modules that import each other, directly or indirectly."""
        return sorted(sorted(group) for group in connected(self.imports) if len(group) > 1)


def _imported_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def connected(graph: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of a graph (Tarjan's algorithm)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = lowest[node] = len(order)
        stack.append(node)
        for following in sorted(graph[node]):
            if following not in order:
                visit(following)
                lowest[node] = min(lowest[node], lowest[following])
            elif following in stack:
                lowest[node] = min(lowest[node], order[following])
        if lowest[node] == order[node]:
            start = stack.index(node)
            found.append(stack[start:])
            del stack[start:]

    for node in graph:
        if node not in order:
            visit(node)
    return found


def public_modules(package: Package, docs: Path) -> set[str]:
    """
    The modules that users may import: those in the API reference, in imports of the documentation, and in the
    provider info.
    """
    prefix = rf"\b{package.folder.name}\.([\w.]+)"
    named: list[str] = []
    for path in docs.rglob("*"):
        if path.suffix in (".md", ".rst", ".py"):
            in_reference = docs / "api" in path.parents
            named += re.findall(prefix if in_reference else rf"(?:from|import) {prefix}", path.read_text())
    info = package.modules.get("get_provider_info")
    for node in ast.walk(info.tree) if info else ():
        # Without the package's name, which is added at run time.
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            named.append(node.value.strip("."))
    return {found for name in named if (found := package.resolve(name)) is not None}


def measure(package: Package | None = None, docs: Path = ROOT / "docs") -> tuple[Figures, Names]:
    """
    The figures that need no running code.

    :param package: by default the package of this project.
    :param docs: folder of its documentation.
    """
    package = package or Package(ROOT / NAME)
    single = _with_one_importer(package, public_modules(package, docs))
    functions = [function for module in package.modules.values() for function in module.functions]
    long = [f"{name} ({lines} lines)" for name, lines in functions if lines > LONG_FUNCTION_LINES]
    short = sum(lines <= SHORT_FUNCTION_LINES for _, lines in functions)
    figures: Figures = {
        **_sizes(list(package.modules.values())),
        "modules with one importer": len(single),
        f"modules under {SHORT_MODULE_LINES} lines with one importer": sum(
            module.lines < SHORT_MODULE_LINES for module in single
        ),
        "import cycles": len(package.cycles),
        "modules in an import cycle": sum(map(len, package.cycles)),
        "functions": len(functions),
        f"functions over {LONG_FUNCTION_LINES} lines": len(long),
        f"functions up to {SHORT_FUNCTION_LINES} lines, %": round(100 * short / max(len(functions), 1), 1),
    }
    names = {
        "modules with one importer": [f"{each.name} <- {package.importers[each.name][0]}" for each in single],
        "import cycles": [", ".join(cycle) for cycle in package.cycles],
        f"functions over {LONG_FUNCTION_LINES} lines": long,
    }
    return figures, names


def _with_one_importer(package: Package, public: set[str]) -> list[Module]:
    """Modules with one importer that are neither public nor fixed by Python."""
    return [
        module
        for name, module in package.modules.items()
        if len(package.importers[name]) == 1 and not module.is_entry and name not in public
    ]


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
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("AIRFLOW_") and not name.lower().endswith("_proxy")
    }
    return subprocess.Popen(
        [sys.executable, "-m", "tests.structure.trace", path],
        cwd=ROOT,
        env={**kept, "AIRFLOW_HOME": f"{home}/{path}", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def count_tests() -> Figures:
    """
    The number of test cases of each folder.

    :raises RuntimeError: pytest could not collect them.
    """
    return {f"test cases, {folder}": _count_tests(folder) for folder in TESTS}


def _count_tests(folder: str) -> int:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    collected = re.search(r"^(?:\d+/)?(\d+) tests? collected", done.stdout, re.MULTILINE)
    if done.returncode != 0 or collected is None:
        raise RuntimeError(f"pytest cannot collect {folder}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return int(collected[1])


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


def table(figures: Figures, before: Figures | None = None) -> Iterator[str]:
    """
    The lines of the table.

    :param before: figures to compare with.
    """
    width = max(map(len, figures))
    yield f"{'':{width}}  {'now':>8}  {'limit':>8}" + (f"  {'before':>8}  {'change':>8}" if before else "")
    for label, value in figures.items():
        limit, earlier = (
            f"{known[label]:,g}" if label in known else "" for known in (limits(), before or {})
        )
        change = f"{value - before[label]:+,g}" if before and label in before else ""
        line = f"{label:{width}}  {value:>8,g}  {limit:>8}  {earlier:>8}  {change:>8}"
        yield line.rstrip()


def listing(names: Names) -> Iterator[str]:
    """The lines that name the counted items."""
    for label, each in names.items():
        yield f"\n{label}:"
        yield from (f"  {name}" for name in each)


def main(arguments: Iterable[str] | None = None) -> None:
    """Measure and print the figures."""
    options = _options(arguments)
    figures, names = measure()
    traced_figures, traced_names = trace()
    figures |= traced_figures
    names |= traced_names
    if options.tests:
        figures |= count_tests()
    before = json.loads(options.against.read_text())["figures"] if options.against else None
    print("\n".join(table(figures, before)))
    if options.lower:
        lower(figures)
    if options.list:
        print("\n".join(listing(names)))
    if options.json:
        options.json.write_text(json.dumps({"figures": figures, "names": names}, indent=2) + "\n")


def _options(arguments: Iterable[str] | None) -> Any:
    parser = argparse.ArgumentParser(prog="python -m tools.structure", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the figures in this file")
    parser.add_argument(
        "--against", type=Path, metavar="FILE", help="show the figures of this file beside them"
    )
    parser.add_argument("--lower", action="store_true", help="lower the limits to the figures")
    parser.add_argument("--list", action="store_true", help="name the counted items")
    parser.add_argument("--tests", action="store_true", help="count the test cases too")
    return parser.parse_args(None if arguments is None else list(arguments))


if __name__ == "__main__":
    main()
