"""The clock of the package, the only one that anybody asks."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import airflow_provider_workflow
from airflow_provider_workflow import clock, moments


async def test_what_takes_longer_than_its_time_is_cancelled() -> None:
    never = asyncio.get_running_loop().create_future()
    with pytest.raises(asyncio.TimeoutError):
        async with clock.timeout(0):
            await never
    assert never.cancelled()


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-28t10:00:00z", "2026-11-28T10:00:00Z"),
        ("2026-11-28T10:00:00.123456789Z", "2026-11-28T10:00:00Z"),
        ("2026-11-28 12:00:00+02:00", "2026-11-28T10:00:00Z"),
        ("2026-11-28T10:00:00", "2026-11-28T10:00:00Z"),
        ("2026-06-30T23:59:60Z", None),
        ("9999-12-31T23:59:59-12:00", None),
        (1764324000, None),
        ("", None),
    ],
)
def test_a_time_of_the_service_is_read_in_each_form_of_iso_8601(text: object, moment: str | None) -> None:
    assert moments.normal(text) == moment


PACKAGE = Path(airflow_provider_workflow.__file__).parent
REASON = "# real time: "
"""Ends a line that asks for the machine's own time, and says why. The emulator has a clock of its own."""
PAST_THE_CLOCK = {
    *("time", "async_timeout"),
    *("datetime.now", "datetime.utcnow", "datetime.today", "date.today"),
    *(f"asyncio.{name}" for name in ("sleep", "wait_for", "timeout", "timeout_at")),
}


def goes_past_the_clock(tree: ast.AST) -> Iterator[int]:
    """Lines that name what they should not, or let ``asyncio.wait`` end after some time."""
    turns = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call) and gives_a_turn(node)}
    for node in ast.walk(tree):
        if id(node) in turns:
            continue
        if names_in(node) & PAST_THE_CLOCK or (isinstance(node, ast.Call) and waits_for_some_time(node)):
            yield node.lineno  # type: ignore[attr-defined]


def names_in(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    if isinstance(node, ast.ImportFrom):
        return {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {ast.unparse(node)} if isinstance(node, ast.Attribute) else set()


def gives_a_turn(call: ast.Call) -> bool:
    """``asyncio.sleep(0)`` takes no time."""
    return ast.unparse(call) == "asyncio.sleep(0)"


def waits_for_some_time(call: ast.Call) -> bool:
    return ast.unparse(call.func) == "asyncio.wait" and any(
        keyword.arg == "timeout" for keyword in call.keywords
    )


def test_every_module_asks_the_one_clock_or_says_why_not() -> None:
    past_the_clock, explained = set(), set()
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).as_posix()
        if name != "clock.py" and not name.startswith("emulator/"):
            text = path.read_text()
            past_the_clock |= {f"{name}:{number}" for number in goes_past_the_clock(ast.parse(text))}
            lines = enumerate(text.splitlines(), 1)
            explained |= {f"{name}:{number}" for number, line in lines if REASON in line}

    assert past_the_clock, "this test would see nothing"
    assert past_the_clock == explained, f"ask airflow_provider_workflow.clock, or say why not: {REASON}..."
