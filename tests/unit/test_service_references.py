"""Comments, docstrings and pages refer to sections of ``docs/service.md`` that exist, and to nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.unit.documents import ROOT, service_sections

FOLDERS = ("airflow_provider_workflow", "benchmarks", "dags_examples", "docs", "tests", "tools")
NUMBER = r"\d+(?:\.\d+)*"
REFERENCE = re.compile(rf"docs/service\.md\s+({NUMBER}(?:(?:,|\s+and|\s+to)\s+{NUMBER})*)")
ELSEWHERE = re.compile(r"\bservice facts\b|\bspecification \d|\(specification", re.IGNORECASE)
SECTIONS = service_sections()


def sources() -> Iterator[tuple[str, str]]:
    """Files that may refer to a section, and what is in them."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".md") and path.name != "test_service_references.py":
                yield str(path.relative_to(ROOT)), path.read_text()


def numbers_in(text: str) -> list[str]:
    """Every section that a text refers to."""
    return [number for found in REFERENCE.findall(text) for number in re.findall(NUMBER, found)]


def test_sections_are_numbered_in_order_and_without_gaps() -> None:
    chapters = [number for number in SECTIONS if "." not in number]
    assert chapters == [str(each) for each in range(1, len(chapters) + 1)]
    for chapter in chapters:
        parts = [number for number in SECTIONS if number.startswith(f"{chapter}.")]
        assert parts == [f"{chapter}.{each}" for each in range(1, len(parts) + 1)]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("the inbox (docs/service.md 2)", ["2"]),
        ("docs/service.md 2.1, 4.1\n    and 11.2). Returns 3", ["2.1", "4.1", "11.2"]),
        ("docs/service.md 2 to 9 and 13", ["2", "9", "13"]),
        ("see docs/service.md; 4 of them", []),
    ],
)
def test_references_are_found_however_they_are_written(text: str, numbers: list[str]) -> None:
    assert numbers_in(text) == numbers


def test_every_reference_names_a_section_that_exists() -> None:
    found = {(name, number) for name, text in sources() for number in numbers_in(text)}
    assert len(found) > 50
    assert not [each for each in sorted(found) if each[1] not in SECTIONS]


def test_nothing_refers_to_a_paper_that_is_not_in_the_repository() -> None:
    assert not [name for name, text in sources() if ELSEWHERE.search(text)]
