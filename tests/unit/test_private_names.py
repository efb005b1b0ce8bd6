"""Tests use the public names of what they test, and of each other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
FOREIGN = {
    *("_actions", "_HelpAction", "_SubParsersAction", "_add_command"),  # argparse, and Airflow's parser
    *("_encryption_key", "_signing_key"),  # of a key of cryptography
    *("_RequestFrame", "_ResponseFrame", "_thread_lock", "_secrets_masker"),  # the SDK's
    *("_shared_streams", "_groups", "_ack_timeout", "_now"),  # Airflow's shared streams
    *("_do_render_template_fields", "_serialize_rendered_fields"),  # called by Airflow
    "_common",  # of psutil
    *("_exit", "_replace"),  # public, in spite of how they are written
}
"""Private names of Python, Airflow and other libraries, which tests stand for or look into."""
LATER = {
    "e2e/sealed_airflow.py": "the key that user tokens are encrypted with",
    "soak/leaky.py": "replaces parts of the client by ones that leak",
}
"""Files that still use private names of the package, and for what."""
BEING_CLEARED = (
    "unit/client/",
    "unit/hooks/",
    "unit/test_every_fault.py",
    "unit/test_required_fields.py",
)


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_" and name not in FOREIGN


def private_names(tree: ast.AST) -> Iterator[str]:
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
        yield from (f"{node.lineno}: {name}" for name in names if is_private(name))


def found_in(path: Path) -> list[str]:
    return list(private_names(ast.parse(path.read_text())))


def test_no_test_uses_a_private_name() -> None:
    found = {path.relative_to(TESTS).as_posix(): found_in(path) for path in TESTS.rglob("*.py")}
    with_some = {path: names for path, names in found.items() if names}

    assert {path for path in with_some if not path.startswith(BEING_CLEARED)} == set(LATER), with_some


def test_a_private_name_is_found_however_it_is_used() -> None:
    written = """
from module import _name
module._name
monkeypatch.setattr(module, "_name", 1)
monkeypatch.setattr("package.module._name", 1)
getattr(module, "_name")
self._name, super()._name, os._exit
"""
    lines = [line.partition(":")[0] for line in private_names(ast.parse(written))]

    assert lines == ["2", "3", "4", "5", "6"]
