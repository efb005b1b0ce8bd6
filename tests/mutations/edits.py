"""
Edits of the syntax tree of a function, which survive that its source is formatted or moved.

An edit gets the function, changes it, and returns how many places it changed; a fault changes exactly one.
Patterns are expressions, compared by their structure: in them ``_`` stands for any expression, and ``...`` as
the only argument of a call for any arguments. A condition or a call is chosen by a word: a name in it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

Edit = Callable[[ast.AST], int]
BLOCKS = ("body", "orelse", "finalbody")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def becomes(old: str, new: str) -> Edit:
    """Replace an expression by another one, or the return of it."""
    pattern, replacement = _expression(old), _expression(new)
    return lambda function: _replace(function, lambda node: _matches(node, pattern), lambda _: replacement)


def never(word: str) -> Edit:
    """Skip a guard: the condition with this word is false."""
    return _condition(word, lambda _: ast.Constant(False))


def always(word: str) -> Edit:
    """The condition with this word is true."""
    return _condition(word, lambda _: ast.Constant(True))


def without(word: str) -> Edit:
    """Leave the part with this word out of an ``and`` or ``or``."""

    def shortened(node: Any) -> ast.expr:
        remaining_values = [value for value in node.values if not _names(value, word)]
        return remaining_values[0] if len(remaining_values) == 1 else ast.BoolOp(node.op, remaining_values)

    def has_it(node: ast.AST) -> bool:
        return isinstance(node, ast.BoolOp) and any(_names(value, word) for value in _lowest(node, word))

    return lambda function: _replace(function, has_it, shortened)


def dropped(call: str) -> Edit:
    """Leave out the statement that is a call of this name, awaited or not."""
    return _statement(lambda statement: _is_call(statement, call), lambda _: [ast.Pass()])


def preceded(call: str, inserted: str) -> Edit:
    """Put another statement before the one with a call of this name, be it in a condition."""
    return _statement(
        lambda statement: any(_calls(part, call) for part in _own_parts(statement)),
        lambda statement: [*ast.parse(inserted).body, statement],
    )


def returning(value: str, *, after: str) -> Edit:
    """Return another value in the block in which this name is called."""

    def edit(function: ast.AST) -> int:
        count = 0
        for block in _blocks(function):
            if isinstance(block[-1], ast.Return) and any(
                _is_simple(statement) and _calls(statement, after) for statement in block
            ):
                block[-1].value = _expression(value)
                count += 1
        return count

    return edit


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _matches(node: Any, pattern: Any) -> bool:
    if isinstance(pattern, ast.Name) and pattern.id == "_":
        return isinstance(node, ast.expr)
    if type(node) is not type(pattern):
        return False
    if isinstance(pattern, ast.Call) and [ast.unparse(argument) for argument in pattern.args] == ["..."]:
        return _matches(node.func, pattern.func)
    if isinstance(pattern, list):
        return len(node) == len(pattern) and all(map(_matches, node, pattern))
    if not isinstance(pattern, ast.AST):
        return bool(node == pattern)
    return all(
        _matches(getattr(node, name, None), value)
        for name, value in ast.iter_fields(pattern)
        if name not in ("ctx", "kind")
    )


def _replace(function: ast.AST, is_chosen: Callable[[ast.AST], bool], new: Callable[[Any], ast.AST]) -> int:
    """Replace nodes; return how many there were."""
    count = 0

    class Replacing(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            nonlocal count
            if is_chosen(node):
                count += 1
                return deepcopy(new(node))
            return self.generic_visit(node)

    Replacing().generic_visit(function)
    return count


def _condition(word: str, new: Callable[[ast.expr], ast.expr]) -> Edit:
    def edit(function: ast.AST) -> int:
        count = 0
        for node in ast.walk(function):
            if isinstance(node, (ast.If, ast.While, ast.IfExp)) and _names(node.test, word):
                node.test = new(node.test)
                count += 1
        return count

    return edit


def _statement(is_chosen: Callable[[ast.stmt], bool], new: Callable[[ast.stmt], list[ast.stmt]]) -> Edit:
    def edit(function: ast.AST) -> int:
        count = 0
        for block in _blocks(function):
            for at in reversed(range(len(block))):
                if is_chosen(block[at]):
                    block[at : at + 1] = new(block[at])
                    count += 1
        return count

    return edit


def _blocks(function: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements of a function, its branches included."""
    for node in list(ast.walk(function)):
        for name in BLOCKS:
            block = getattr(node, name, None)
            if isinstance(block, list) and block:
                yield block


def _lowest(node: ast.BoolOp, word: str) -> list[ast.expr]:
    """The values of an ``and`` or ``or``, unless one of them is such a thing with the word itself."""
    nested = any(isinstance(value, ast.BoolOp) and _names(value, word) for value in node.values)
    return [] if nested else node.values


def _own_parts(statement: ast.stmt) -> Iterator[ast.AST]:
    """The statement, or the condition of one that has others in it."""
    if _is_simple(statement):
        yield statement
    elif isinstance(statement, (ast.If, ast.While)):
        yield statement.test


def _is_simple(statement: ast.stmt) -> bool:
    """Whether no other statements are in it."""
    return not any(isinstance(node, ast.stmt) for node in ast.walk(statement) if node is not statement)


def _is_call(statement: ast.stmt, name: str) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    value = value.value if isinstance(value, ast.Await) else value
    return isinstance(value, ast.Call) and _calls(value, name)


def _calls(node: ast.AST, name: str) -> bool:
    functions = [f".{ast.unparse(call.func)}" for call in ast.walk(node) if isinstance(call, ast.Call)]
    return any(function.endswith(f".{name}") for function in functions)


def _names(node: ast.AST, word: str) -> bool:
    """Whether a name, an attribute, an argument or a string in it is this word."""
    fields = ("attr", "id", "value", "arg")
    return any(word == getattr(child, field, None) for child in ast.walk(node) for field in fields)
