"""
Faults that are made from a list of operators: any function of the package can have one.

An operator gets a node of a function's syntax tree, and returns what stands in its place, or None.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha1
from pathlib import Path

from tests.mutations.fault import Fault, functions

Operator = Callable[[ast.AST], ast.AST | None]

EDGES = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
OPPOSITE_ENDS = {"min": "max", "max": "min"}
NEVER_SWAPPED = {*OPPOSITE_ENDS, "isinstance", "issubclass", "hasattr", "getattr", "cast"}
"""Any test notices that their arguments are swapped, or none can."""


def drop_call(node: ast.AST) -> ast.AST | None:
    """Leave out a statement that is a call, unless it writes to a log."""
    value = node.value if isinstance(node, ast.Expr) else None
    call = value.value if isinstance(value, ast.Await) else value
    return ast.Pass() if isinstance(call, ast.Call) and not _logs(call) else None


def negate_condition(node: ast.AST) -> ast.AST | None:
    """Turn a condition into its opposite; not that of a ``while``, which would never end."""
    if not isinstance(node, (ast.If, ast.IfExp)):
        return None
    node.test = ast.UnaryOp(ast.Not(), node.test)
    return node


def swap_arguments(node: ast.AST) -> ast.AST | None:
    """Swap the first two positional arguments of a call."""
    if not isinstance(node, ast.Call) or len(node.args) < 2 or isinstance(node.args[0], ast.Starred):
        return None
    first, second, *rest = node.args
    if isinstance(second, ast.Starred) or _logs(node) or ast.unparse(node.func) in NEVER_SWAPPED:
        return None
    node.args = [second, first, *rest]
    return node


def shift_limit(node: ast.AST) -> ast.AST | None:
    """Move the limit of a comparison or of a slice by one."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in EDGES:
        node.ops[0] = EDGES[type(node.ops[0])]()
        return node
    if isinstance(node, ast.Slice) and node.upper is not None:
        node.upper = ast.BinOp(node.upper, ast.Sub(), ast.Constant(1))
        return node
    return None


def reverse_order(node: ast.AST) -> ast.AST | None:
    """Take the other end of a slice or of an order."""
    if isinstance(node, ast.Slice) and (node.lower is None) != (node.upper is None):
        node.lower, node.upper = node.upper, node.lower
        return node
    name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    if isinstance(node, ast.Call) and name in OPPOSITE_ENDS:
        node.func = ast.Name(OPPOSITE_ENDS[name])
        return node
    if (
        isinstance(node, ast.Call)
        and name == "sorted"
        and not any(keyword.arg == "reverse" for keyword in node.keywords)
    ):
        node.keywords.append(ast.keyword("reverse", ast.Constant(True)))
        return node
    return node.args[0] if isinstance(node, ast.Call) and name == "reversed" else None


def skip_guard(node: ast.AST) -> ast.AST | None:
    """Leave out an ``if`` that ends the function, or the turn of a loop."""
    if isinstance(node, ast.If) and not node.orelse and isinstance(node.body[-1], EXITS):
        return ast.Pass()
    return None


OPERATORS: tuple[Operator, ...] = (
    drop_call,
    negate_condition,
    swap_arguments,
    shift_limit,
    reverse_order,
    skip_guard,
)


def generated(package: Path, count: int) -> list[Fault]:
    """
    Faults of different functions, half of them in ``dispatch``.

    The choice depends on the names of functions and their text alone, so that a change of the package
    changes few of the faults.

    :param package: directory of the package.
    :param count: maximum number of faults.
    """
    faults = sorted(_one_of_each_function(package), key=lambda fault: _digest(fault.name))
    of_dispatch = [fault for fault in faults if fault.function.startswith("dispatch.")][: count // 2]
    of_other_modules = [
        fault for fault in faults if not fault.function.startswith(("dispatch.", "emulator."))
    ]
    return [*of_dispatch, *of_other_modules[: count - len(of_dispatch)]]


def _one_of_each_function(package: Path) -> Iterator[Fault]:
    for place in functions(package):
        function, node = place.function, place.node
        faults: dict[Operator, list[Fault]] = {}
        for operator, at, text in _sites(node):
            name = f"{function}: {operator.__name__} at {text}"
            faults.setdefault(operator, []).append(Fault(name, function, partial(_edit, operator, at)))
        if faults:
            operator = min(faults, key=lambda operator: _digest(f"{function}: {operator.__name__}"))
            yield min(faults[operator], key=lambda fault: _digest(fault.name))


def _sites(function: ast.AST) -> Iterator[tuple[Operator, int, str]]:
    """Each place where an operator can be applied: the operator, the number of the node, its text."""
    for at, node in enumerate(ast.walk(function)):
        for operator in OPERATORS:
            if at > 0 and operator(_copy_of(node)) is not None:
                yield operator, at, ast.unparse(node).splitlines()[0][:60]


def _copy_of(node: ast.AST) -> ast.AST:
    """A copy that an operator can change; it has the nodes below in common with the original."""
    fields = {
        name: list(value) if isinstance(value, list) else value for name, value in ast.iter_fields(node)
    }
    return ast.copy_location(type(node)(**fields), node)


def _edit(operator: Operator, at: int, function: ast.AST) -> int:
    old = list(ast.walk(function))[at]
    new = operator(_copy_of(old))
    assert new is not None
    for parent in ast.walk(function):
        for name, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, name, new)
            elif isinstance(value, list) and any(item is old for item in value):
                setattr(parent, name, [new if item is old else item for item in value])
    return 1


def _logs(call: ast.Call) -> bool:
    return ast.unparse(call.func).startswith(("log.", "self.log."))


def _digest(text: str) -> str:
    return sha1(text.encode(), usedforsecurity=False).hexdigest()
