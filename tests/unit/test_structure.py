"""
The structure of the package: its size, and the path of a message, only get smaller.

``structure_limits.toml`` beside this file has the limits. ``make structure LOWER=1`` lowers them to today's
figures; none of them ever rises.
"""

from __future__ import annotations

import pytest

from tools import structure

LIMITS = structure.limits()
OF_PATH = " per message, "


@pytest.fixture(scope="module")
def traced() -> tuple[structure.Figures, structure.Names]:
    """Both traces, which run side by side in processes of their own."""
    return structure.trace()


@pytest.mark.parametrize("label", [label for label in LIMITS if OF_PATH not in label])
def test_the_package_does_not_grow(label: str) -> None:
    figures, names = structure.measure()

    check(label, figures[label], names.get(label, []))


@pytest.mark.since(3, 3, "the task state store, which the traced tasks use,")
@pytest.mark.parametrize("label", [label for label in LIMITS if OF_PATH in label])
def test_the_path_of_a_message_does_not_grow(
    traced: tuple[structure.Figures, structure.Names], label: str
) -> None:
    figures, names = traced

    check(label, figures[label], names.get(label, []))


def check(label: str, figure: float, names: list[str]) -> None:
    """Compare a figure with its limit."""
    limit = LIMITS[label]
    assert figure <= limit, f"{label}: {figure:g}, and the limit is {limit:g}\n" + "\n".join(names)


@pytest.mark.since(3, 3, "the task state store, which the traced tasks use,")
@pytest.mark.parametrize(
    ("path", "first", "passed"),
    [
        ("dispatch operator", "WorkflowInboxDispatchOperator.execute", ()),
        (
            "deferred sensor",
            "WorkflowInboxSensor.execute",
            ("WorkflowInboxTrigger.run", "WorkflowInboxSensor.resume"),
        ),
    ],
)
def test_the_trace_covers_what_airflow_calls(
    traced: tuple[structure.Figures, structure.Names], path: str, first: str, passed: tuple[str, ...]
) -> None:
    files = traced[1][f"functions per message, {path}"]
    functions = [name for each in files for name in each.partition(": ")[2].split(", ")]

    assert functions[0] == first
    assert set(passed) <= set(functions)
    assert not [each for each in files if each.startswith("emulator/")]
