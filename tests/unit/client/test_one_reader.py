"""The body of an answer is read in one function per transport, which has a limit, and nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from airflow_provider_workflow import client

CLIENT = Path(client.__file__).parent
READERS = {"over_requests.py: _answer", "over_aiohttp.py: next_chunk"}
READING = frozenset(
    {
        *(
            "content",
            "text",
            "raw",
            "iter_content",
            "iter_lines",
            "stream",
            "read_chunked",
            "read1",
            "readinto",
        ),
        *("iter_any", "iter_chunked", "iter_chunks", "readany", "readchunk", "readexactly", "readline"),
    }
)
"""Attributes of the responses of both libraries that are their bodies, or read them."""
SOCKETS = {"_LimitedReader.__init__", "_LimitedReader.readinto", "_LimitedReader.close", "_Head.readline"}
"""Below the library: they pass on what it reads."""
OURS = {"call.read", "step.read", "store.read", "answer.json", "call.json", "file.read"}
"""Methods and fields of this package with such names, and files of certificates."""


def functions(tree: ast.AST, within: str = "") -> Iterator[tuple[str, ast.AST]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = f"{within}.{node.name}".lstrip(".")
            yield (name, node)
            yield from functions(node, name)


def reading(node: ast.AST) -> Iterator[str]:
    """What a function reads of a response."""
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute) and each.attr in READING:
            yield ast.unparse(each)
        elif isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute):
            called = ast.unparse(each.func)
            if each.func.attr in ("read", "json") and called not in OURS:
                yield called


def found_in(path: Path) -> Iterator[tuple[str, list[str]]]:
    for name, node in functions(ast.parse(path.read_text())):
        if not isinstance(node, ast.ClassDef) and name not in SOCKETS and (found := list(reading(node))):
            yield f"{path.name}: {name}", found


def test_only_the_two_readers_read_the_body_of_an_answer() -> None:
    found = dict(pair for path in sorted(CLIENT.glob("*.py")) for pair in found_in(path))
    assert set(found) == READERS, found


def test_a_function_that_reads_a_body_is_found(tmp_path: Path) -> None:
    source = tmp_path / "module.py"
    for line in (
        "response.content",
        "response.text",
        "response.json()",
        "await response.read()",
        "a.raw.read()",
    ):
        source.write_text(f"class A:\n    async def f(self, response, a):\n        return {line}\n")
        assert dict(found_in(source)), line
