"""A seeded fault: an edit of one function of the package, wherever that is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.mutations.edits import FUNCTIONS, Edit


@dataclass(frozen=True)
class Fault:
    """
    One change of the package.

    :param name: what the change breaks.
    :param function: its qualified name, with as much of the module in front as tells it from others, such as
        ``HeldLease.seconds_left`` or ``runs.run_id_of``.
    :param edit: changes it in exactly one place.
    :param tests: patterns of the test files that must notice.
    """

    name: str
    function: str
    edit: Edit
    tests: tuple[str, ...]

    def seeded(self, package: Path) -> tuple[Path, str]:
        """
        The file with the function, and its source with the fault in it.

        :raises ValueError: no function, or more than one, has this name, or there is not one place to change.
        """
        found = [(path, tree, node) for path, tree, node in _functions(package, self.function)]
        if len(found) != 1:
            raise ValueError(f"{self.name!r}: {len(found)} functions are called {self.function}")
        path, tree, node = found[0]
        if (count := self.edit(node)) != 1:
            raise ValueError(f"{self.name!r}: {self.function} has {count} such places")
        return path, ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _functions(package: Path, name: str) -> Iterator[tuple[Path, ast.Module, ast.AST]]:
    """Each function of this name, with its file and the syntax tree that it is part of."""
    last = name.rpartition(".")[2]
    for path in sorted(package.rglob("*.py")):
        if f"def {last}(" in (text := path.read_text()):
            tree = ast.parse(text)
            module = ".".join(path.relative_to(package).with_suffix("").parts)
            for qualified, node in _named(tree, module):
                if f".{qualified}".endswith(f".{name}"):
                    yield path, tree, node


def _named(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    """The qualified names of all functions below a node."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (*FUNCTIONS, ast.ClassDef)):
            name = f"{prefix}.{child.name}"
            if isinstance(child, FUNCTIONS):
                yield name, child
            yield from _named(child, name)
        else:
            yield from _named(child, prefix)
