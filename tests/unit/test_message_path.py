"""The path of a message does not grow: its files and functions, counted as ``make structure`` counts them."""

from __future__ import annotations

import pytest

from tests.unit.test_structure import check, labels
from tools import structure

pytestmark = [
    pytest.mark.slow,
    pytest.mark.since(3, 3, "the task state store, which the traced tasks use,"),
]


@pytest.fixture(scope="module")
def traced() -> tuple[structure.Figures, structure.Names]:
    """Both traces, which run side by side in processes of their own."""
    return structure.trace()


@pytest.mark.parametrize("label", labels(of_path=True))
def test_the_path_of_a_message_does_not_grow(
    traced: tuple[structure.Figures, structure.Names], label: str
) -> None:
    check(label, *traced)


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
