"""What ``make structure`` counts; nothing fails because a figure of the package grows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import structure

pytestmark = pytest.mark.slow

SOURCE = '''"""A till."""

import os


# A comment.
class Till:
    """All money."""

    def pay(self, coins):
        """
        Pay.
        """
        for coin in coins:  # one after the other
            if coin and (coin > 1 or not os):
                return [part for part in coins if part]

    def _count(self):
        return 1
'''


def test_code_concepts_and_decisions_are_counted(tmp_path: Path) -> None:
    (tmp_path / "till.py").write_text(SOURCE)
    (tmp_path / "emulator").mkdir()
    (tmp_path / "emulator" / "app.py").write_text(SOURCE)
    figures, names = structure.measure(tmp_path)

    of_till = {"code lines": 7, "concepts": 2}
    for part in ("without emulator", "emulator"):
        assert {label: figures[f"{label}, {part}"] for label in of_till} == of_till
    assert names == {"functions with over 14 decisions": []}


@pytest.mark.parametrize(("branches", "functions"), [(14, []), (15, ["till.pay (15 decisions)"])])
def test_a_function_with_many_decisions_is_named(tmp_path: Path, branches: int, functions: list[str]) -> None:
    body = "".join(f"    if coin == {number}:\n        pass\n" for number in range(branches - 1))
    (tmp_path / "till.py").write_text(f"def pay(coin):\n    _ = coin and 1\n{body}")
    _, names = structure.measure(tmp_path)

    assert names["functions with over 14 decisions"] == functions


@pytest.mark.since(3, 3, "the task state store, which the traced tasks use,")
def test_the_paths_of_a_message_are_traced() -> None:
    figures, names = structure.trace()

    for label in structure.PATHS.values():
        assert figures[f"files per message, {label}"] > 10
        assert figures[f"functions per message, {label}"] > 100
        assert any("dispatch/dispatcher.py" in line for line in names[f"functions per message, {label}"])
