"""Tests use the public names of what they test, and of each other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
FOREIGN = {
    *("_actions", "_HelpAction", "_SubParsersAction", "_add_command"),  # argparse, and Airflow's parser
    *("_RequestFrame", "_ResponseFrame", "_thread_lock", "_reader_task"),  # the SDK's
    *("_shared", "_secrets_masker"),  # its masking of secrets
    *("_shared_streams", "_groups", "_ack_timeout", "_now"),  # Airflow's shared streams
    *("_do_render_template_fields", "_serialize_rendered_fields"),  # called by Airflow
    "_common",  # of psutil
    *("_exit", "_replace"),  # public, in spite of how they are written
}
"""Private names of Python, Airflow and other libraries, which tests stand for or look into."""
LATER = {
    "_tokens": "the access tokens that a process keeps",
    **dict.fromkeys(("_Stream", "_sessions", "_keep_open"), "replaced by ones that leak"),
}
"""Private names of the package that tests still use, and what they are."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_" and name not in FOREIGN


def private_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Private names that are taken from anything but ``self``, ``cls`` and ``super()``, with their line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in ("self", "cls", "super()"):
            names = [node.attr]
        elif isinstance(node, ast.ImportFrom):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("attr", "patch", "object")):
            strings = [each.value for each in node.args[:2] if isinstance(each, ast.Constant)]
            names = [part for each in strings if isinstance(each, str) for part in each.split(".")]
        else:
            continue
        yield from ((node.lineno, name) for name in names if is_private(name))


def test_no_test_uses_a_private_name() -> None:
    found = [
        (f"{path.relative_to(TESTS)}:{line}", name)
        for path in TESTS.rglob("*.py")
        for line, name in private_names(ast.parse(path.read_text()))
    ]

    assert {name for _, name in found} == set(LATER), [each for each in found if each[1] not in LATER]


def test_a_private_name_is_found_however_it_is_used() -> None:
    written = """
from module import _name
module._name
monkeypatch.setattr(module, "_name", 1)
monkeypatch.setattr("package.module._name", 1)
getattr(module, "_name")
self._name, super()._name, os._exit
"""
    assert [line for line, _ in private_names(ast.parse(written))] == [2, 3, 4, 5, 6]
