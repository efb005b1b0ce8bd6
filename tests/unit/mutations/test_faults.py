"""The seeded faults fit the functions that they change."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutations.__main__ import COUNT, all_faults
from tests.mutations.edits import (
    always,
    becomes,
    dropped,
    guarded_by,
    never,
    preceded,
    returning,
    without,
)
from tests.mutations.fault import Edit, Fault
from tests.mutations.operators import OPERATORS
from tests.mutations.seeded import PACKAGE, seeded

TILL = """
class Till:
    async def close(self, sums):  # in the evening
        if self.open and not sums:
            await self.lock.turn()
            return False
        first, last = sums[:5], sorted(sums)
        self.count(first)
        self.pay(last)
        return max(first, 7) if first else None
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "till.py").write_text(TILL)
    return tmp_path


@pytest.mark.slow
def test_each_fault_changes_one_function() -> None:
    faults = all_faults()
    sources = [fault.seeded(PACKAGE) for fault in faults]

    assert all(compile(source, file, "exec") for file, source in sources)
    assert len({fault.name for fault in faults}) == COUNT
    for fault in faults:
        with seeded(fault):
            pass


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        (becomes("sorted(...)", "sums"), "first, last = (sums[:5], sums)"),
        (becomes("max(_, 7)", "0"), "return 0 if first else None"),
        (never("open"), "if False:"),
        (always("first"), "return max(first, 7) if True else None"),
        (without("sums"), "if self.open:"),
        (dropped("lock.turn"), "pass"),
        (preceded("pay", "self.refund()"), "self.refund()"),
        (returning("True", after="turn"), "return True"),
    ],
)
def test_an_edit_changes_the_function_whatever_its_format(package: Path, edit: Edit, line: str) -> None:
    _, faulty = Fault("made up", "Till.close", edit).seeded(package)

    assert f"        {line}\n" in faulty


def test_a_statement_can_stand_before_the_condition_with_a_call(package: Path) -> None:
    (package / "shop" / "till.py").write_text("def close():\n    if ring():\n        count()\n")
    _, faulty = Fault("made up", "till.close", guarded_by("ring", "count()")).seeded(package)

    assert faulty == "def close():\n    count()\n    if ring():\n        count()\n"


@pytest.mark.parametrize(
    ("function", "edit", "text"),
    [
        ("Till.open", never("open"), "0 functions are called Till.open"),
        ("close", never("open"), "2 functions are called close"),
        ("Till.close", never("nothing"), "Till.close has 0 such places"),
        ("Till.close", becomes("sums", "[]"), "Till.close has 3 such places"),
    ],
)
def test_a_fault_that_is_not_one_change_of_one_function_is_an_error(
    package: Path, function: str, edit: Edit, text: str
) -> None:
    (package / "door.py").write_text("def close(): ...\n")

    with pytest.raises(ValueError, match=text):
        Fault("made up", function, edit).seeded(package)


@pytest.mark.parametrize(
    ("operator", "statement", "faulty"),
    [
        ("drop_call", "lock.turn()", "pass"),
        ("drop_call", "log.info('turned')", None),
        ("negate_condition", "if open: pass", "if not open:\n    pass"),
        ("swap_arguments", "pay(till, sums)", "pay(sums, till)"),
        ("swap_arguments", "pay(*sums, till)", None),
        ("shift_limit", "count < 5", "count <= 5"),
        ("shift_limit", "sums[:5]", ":5 - 1"),
        ("reverse_order", "sums[:5]", "5:"),
        ("reverse_order", "sorted(sums)", "sorted(sums, reverse=True)"),
        ("reverse_order", "min(sums)", "max(sums)"),
        ("reverse_order", "reversed(sums)", "sums"),
        ("skip_guard", "if open: return", "pass"),
        ("skip_guard", "if open: close()", None),
    ],
)
def test_an_operator(operator: str, statement: str, faulty: str | None) -> None:
    (node,) = ast.parse(statement).body
    change = next(change for change in OPERATORS if change.__name__ == operator)
    changed = [new for old in ast.walk(node) if (new := change(old))]

    assert [ast.unparse(new) for new in changed] == ([] if faulty is None else [faulty])
