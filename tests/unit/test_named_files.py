"""Docstrings and comments name only files and modules that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.unit.documents import ROOT

PACKAGE = ROOT / "airflow_provider_workflow"
FOLDERS = ("airflow_provider_workflow", "benchmarks", "dags_examples", "docs", "tests", "tools")
FILE = re.compile(
    r"(?<![\w/.-])(?:[\w.-]+/)*[\w.-]+\.(?:py|md|toml|txt|yml|json|mjs|js|css|svg|html)\b"
    rf"|(?<![\w/.-])(?:{'|'.join(FOLDERS)}|constraints)/[\w./-]*\w"
    r"|(?<![\w/.<:-])(?:[a-z_]+/)+(?=[`\s])"
)
"""A path, with an extension, below a folder of the repository, or of a folder with a slash at its end."""
COMMENT = re.compile(r"(?:^|\s)#.*$", re.MULTILINE)
MODULE = re.compile(r"\b(?:airflow_provider_workflow|benchmarks|tests|tools)(?:\.[a-z_]\w*)+\b(?![\w/])")
ELSEWHERE = {
    "Node.js",
    "airflow/provider_info.schema.json",
    "llms.txt",  # made by the documentation's build
    "stored/VERSION.json",  # one for each version
}


@cache
def prose() -> list[tuple[Path, str]]:
    """The docstrings, the strings below attributes, and the comments of each module."""
    texts = [(path, path.read_text()) for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    docstrings = [
        (path, str(node.value.value))
        for path, text in texts
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]
    return docstrings + [(path, comment) for path, text in texts for comment in COMMENT.findall(text)]


def exists(name: str, path: Path) -> bool:
    """Whether a file that a module names is beside it, below it, or at a place above it or in the package."""
    above = [folder for folder in path.parents if folder.is_relative_to(ROOT)]
    return any((folder / name).exists() for folder in [*above, PACKAGE]) or any(path.parent.rglob(name))


def is_there(module: str) -> bool:
    """Whether a dotted name is a module, or a name in one. Nothing is imported."""
    path = ROOT.joinpath(*module.split("."))
    if path.is_dir() or path.with_suffix(".py").is_file():
        return True
    files = path.parent.with_suffix(".py"), path.parent / "__init__.py"
    return any(file.is_file() and path.name in file.read_text() for file in files)


def test_every_file_that_is_named_exists() -> None:
    names = {(name, path) for path, text in prose() for name in FILE.findall(text)}
    assert len(names) > 60
    missing = {
        f"{path.relative_to(ROOT)} names {name}"
        for name, path in names
        if name not in ELSEWHERE and not exists(name.rstrip("./"), path)
    }
    assert missing == set()


def test_every_module_that_is_named_exists() -> None:
    names = {(name, path) for path, text in prose() for name in MODULE.findall(text)}
    assert len(names) > 10
    assert {f"{path.relative_to(ROOT)} names {name}" for name, path in names if not is_there(name)} == set()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("see docs/promise.md and ``web/app.py``.", ["docs/promise.md", "web/app.py"]),
        ("``rules/`` is the service; tests/unit/fuzz", ["rules/", "tests/unit/fuzz"]),
        ("GET /v1/inboxes, e.g. https://host.example/a.py or amqp://host:port/ and/or", []),
    ],
)
def test_a_name_of_a_file_is_seen(text: str, names: list[str]) -> None:
    assert FILE.findall(text) == names
