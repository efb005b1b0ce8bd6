"""
The service's specification, held against tests, client and emulator, which state its routes independently.

Every row has a test that names it: ``@pytest.mark.specification("9.1 refresh")``, where 9.1 is a section of
``docs/service.md``. A row may have several tests, and a test several rows.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_workflow.client import api
from airflow_provider_workflow.emulator.web.app import OPERATIONS
from tests.unit.client.calls import OPERATIONS as CALLS
from tests.unit.client.calls import make
from tests.unit.documents import ROOT, service_sections

HERE = Path(__file__).parent
SECTIONS = service_sections()
ROWS = {
    *("2.1 inbox", "2.2 initialization_failure"),
    "3.2 duplicates",
    *("4 bearer", "4.4 messages"),
    "7 templates",
    *("9.1 multipart", "9.1 credentials", "9.1 authorization code", "9.1 refresh"),
    *("9.1 client credentials", "9.1 not stored", "9.3 client secret"),
    *("10 response_type", "10 client_id", "10 redirect_uri", "10 scope", "10 response_mode", "10 state"),
    "10 code",
    *("11.1 errors", "11.1 answer", "11.1 source"),
    *("11.2 400 unauthenticated", "11.2 400 field", "11.2 401 invalid_audience"),
    *("11.2 401 prefix", "11.2 404", "11.2 409", "11.3 401, 403, 409, 429, 503, 504", "11.3 500"),
    "11.4 expired",
    *("13.1 client_id", "13.1 body", "13.1 200", "13.2 400", "13.2 messages"),
    *("14.1 client identifier", "14.1 user access token", "14.1 app access token", "14.1 redirect URIs"),
    *("14.2 scopes", "14.3 approval", "14.3 state", "14.3 code", "14.3 access token", "14.3 expired"),
    *("14.3 refresh", "14.3 storage", "14.4 scope", "14.4 prefix"),
    *("15 429, 503", "15 headers", "15 per hour"),
}
"""A section, and what of it the provider relies on."""


def marked() -> Iterator[str]:
    """The rows that tests name."""
    for path in HERE.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.specification":
                yield from map(ast.literal_eval, node.args)


def test_every_row_has_a_test_that_names_it_and_no_test_names_another() -> None:
    assert set(marked()) == ROWS


def test_every_row_belongs_to_a_section_that_exists() -> None:
    assert {row.partition(" ")[0] for row in ROWS} <= set(SECTIONS)


FOLDERS = ("airflow_provider_workflow", "benchmarks", "dags_examples", "docs", "tests", "tools")
NUMBER = r"\d+(?:\.\d+)*"
REFERENCE = re.compile(rf"docs/service\.md\s+({NUMBER}(?:(?:,|\s+and|\s+to)\s+{NUMBER})*)")


def sources() -> Iterator[tuple[str, str]]:
    """Files that may refer to a section, and what is in them."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".md") and path.name != "test_specification.py":
                yield str(path.relative_to(ROOT)), path.read_text()


def numbers_in(text: str) -> list[str]:
    return [number for match in REFERENCE.findall(text) for number in re.findall(NUMBER, match)]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("the inbox (docs/service.md 2)", ["2"]),
        ("docs/service.md 2.1, 4.1\n    and 11.2). Returns 3", ["2.1", "4.1", "11.2"]),
        ("docs/service.md 2 to 9 and 13", ["2", "9", "13"]),
        ("see docs/service.md; 4 of them", []),
    ],
)
def test_references_are_read_however_they_are_written(text: str, numbers: list[str]) -> None:
    assert numbers_in(text) == numbers


def test_every_reference_names_a_section_that_exists() -> None:
    references = {(name, number) for name, text in sources() for number in numbers_in(text)}
    assert len(references) > 50
    assert not [reference for reference in sorted(references) if reference[1] not in SECTIONS]


PAGES_OF_A_BROWSER = {"authorize", "editor"}
SERVICE = [operation for operation in OPERATIONS if operation.family != "control"]


def test_the_list_of_calls_of_these_tests_is_complete() -> None:
    functions = inspect.getmembers(api, inspect.isfunction)
    public = {name: function for name, function in functions if not name.startswith("_")}
    makers = {
        name for name, function in public.items() if "Call[" in function.__annotations__.get("return", "")
    }
    assert makers == set(CALLS)


def test_the_emulator_has_no_route_of_the_service_without_a_call() -> None:
    operations = {operation for operation, _ in CALLS.values()}
    assert {route.name for route in SERVICE} - operations == PAGES_OF_A_BROWSER


def test_call_and_route_belong_to_the_same_rate_limit() -> None:
    limits = {(route.name, route.family) for route in SERVICE if route.name not in PAGES_OF_A_BROWSER}

    assert limits == {(operation, make(name).family.value) for name, (operation, _) in CALLS.items()}


def test_the_emulator_serves_both_published_inbox_prefixes() -> None:
    prefixes = {re.sub(r"/inboxes.*", "", route.path) for route in SERVICE if route.family == "inbox"}
    assert prefixes == {"/trigger-inbox/v1", "/trigger-inbox/api/v1"}
