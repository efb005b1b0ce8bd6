"""A seeded fault: an edit of one function of the package, wherever that is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.mutations.edits import FUNCTIONS, Edit

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Place(NamedTuple):
    """
    A function of the package.

    :param file: the file that it is in.
    :param tree: the syntax tree of the file.
    :param function: its qualified name, with the module.
    :param node: the function in the tree.
    """

    file: Path
    tree: ast.Module
    function: str
    node: Function


@dataclass(frozen=True)
class Fault:
    """
    One change of the package.

    :param name: what the change breaks.
    :param function: its qualified name, with as much of the module in front as tells it from others, such as
        ``HeldLease.seconds_left`` or ``runs.run_id_of``.
    :param edit: changes it in exactly one place.
    """

    name: str
    function: str
    edit: Edit

    def seeded(self, package: Path) -> tuple[Path, str]:
        """
        The file with the function, and its source with the fault in it.

        :raises ValueError: no function, or more than one, has this name, or there is not one place to change.
        """
        path, tree, _, node = self.place(package)
        if (count := self.edit(node)) != 1:
            raise ValueError(f"{self.name!r}: {self.function} has {count} such places")
        return path, ast.unparse(ast.fix_missing_locations(tree)) + "\n"

    def place(self, package: Path) -> Place:
        """
        Where the function is.

        :raises ValueError: no function, or more than one, has this name.
        """
        same_name = [
            place
            for place in functions(package, self.function.rpartition(".")[2])
            if f".{place.function}".endswith(f".{self.function}")
        ]
        if len(same_name) != 1:
            raise ValueError(f"{self.name!r}: {len(same_name)} functions are called {self.function}")
        return same_name[0]


def functions(package: Path, name: str = "") -> Iterator[Place]:
    """
    Each function of a package.

    :param name: only of files with functions of this name; "" for all.
    """
    for path in sorted(package.rglob("*.py")):
        if f"def {name}" not in (text := path.read_text()):
            continue
        tree = ast.parse(text)
        module = ".".join(module_parts(path, package))
        for qualified, node in _named(tree, module):
            yield Place(path, tree, qualified, node)


def module_parts(path: Path, package: Path) -> tuple[str, ...]:
    """The name of a module in its package, without ``__init__``: imported so, it would be a second module."""
    parts = path.relative_to(package).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def _named(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    """The qualified names of all functions below a node."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (*FUNCTIONS, ast.ClassDef)):
            name = f"{prefix}.{child.name}"
            if isinstance(child, FUNCTIONS):
                yield name, child
            yield from _named(child, name)
        else:
            yield from _named(child, prefix)
