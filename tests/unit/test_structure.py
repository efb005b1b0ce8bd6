"""The structure of the package stays within bounds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import structure

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
CAPS = {
    "files per message, dispatch operator": 25,
    "files per message, deferred sensor": 32,
    "import cycles": 0,
}
"""The current figures, to be lowered as they fall. The goal is 25 and 30 files."""


@pytest.fixture(scope="module")
def traced() -> tuple[structure.Figures, structure.Names]:
    """Both traces, which run side by side in processes of their own."""
    return structure.trace()


@pytest.mark.since(3, 3, "the task state store, which the traced tasks use,")
@pytest.mark.parametrize("path", structure.PATHS.values())
def test_a_message_passes_through_few_files(
    traced: tuple[structure.Figures, structure.Names], path: str
) -> None:
    figures, names = traced

    label = f"files per message, {path}"
    assert figures[label] <= CAPS[label], "\n".join(names[f"functions per message, {path}"])


@pytest.mark.since(3, 3, "the task state store, which the traced tasks use,")
def test_the_page_on_architecture_names_each_file_of_the_way(
    traced: tuple[structure.Figures, structure.Names],
) -> None:
    table = PAGE.read_text().partition("## The path of a message")[2].partition("\n## ")[0]
    passed = [each.partition(": ")[0] for each in traced[1]["functions per message, dispatch operator"]]

    assert re.findall(r"^\| `([\w/]+\.py)` \|", table, re.MULTILINE) == passed


@pytest.mark.since(3, 3, "the task state store, which the traced tasks use,")
@pytest.mark.parametrize(
    ("path", "first", "passed"),
    [
        ("dispatch operator", "operators/inbox.py: WorkflowInboxDispatchOperator.execute", ()),
        (
            "deferred sensor",
            "sensors/inbox.py: WorkflowInboxSensor.execute",
            ("WorkflowInboxTrigger.run", "WorkflowInboxSensor.resume"),
        ),
    ],
)
def test_the_trace_covers_what_airflow_calls(
    traced: tuple[structure.Figures, structure.Names], path: str, first: str, passed: tuple[str, ...]
) -> None:
    files = traced[1][f"functions per message, {path}"]
    functions = {name for each in files for name in each.partition(": ")[2].split(", ")}

    assert files[0].startswith(first)
    assert set(passed) <= functions
    assert not [each for each in files if each.startswith("emulator/")]


def test_there_are_no_import_cycles() -> None:
    figures, names = structure.measure()

    assert figures["import cycles"] <= CAPS["import cycles"], "\n".join(names["import cycles"])
