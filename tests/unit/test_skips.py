"""The line with which a run of the tests ends: what was tried, and what was not."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

TESTS = """
import pytest
from tests.conftest import TOO_OLD

def test_passed(): pass
@pytest.mark.parametrize("number", (1, 2))
def test_newer(number): pytest.skip(f"queues came with Airflow 9.9, and {TOO_OLD}")
def test_absent(): pytest.skip("there is no browser")
def test_failed(): assert not FAILS
@pytest.fixture
def broken(): assert not FAILS
def test_error(broken): pass
"""


@pytest.mark.parametrize(("fails", "counts"), [(False, "3 passed, 0 failed"), (True, "1 passed, 2 failed")])
def test_the_last_line_counts_the_tests_and_says_why_some_were_skipped(
    pytester: pytest.Pytester, fails: bool, counts: str
) -> None:
    pytester.makeconftest("from tests.conftest import pytest_terminal_summary")
    pytester.makepyfile(f"FAILS = {fails}\n{TESTS}")

    output = pytester.runpytest("-p", "no:randomly").stdout
    output.fnmatch_lines(
        f"Result: {counts}, 2 skipped, of features of a newer Airflow,"
        " 1 skipped: there is no browser (Airflow *"
    )


def test_where_nothing_passed_there_is_no_result(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("from tests.conftest import pytest_terminal_summary")
    pytester.makepyfile("import pytest\ndef test_absent(): pytest.skip('there is no browser')")

    pytester.runpytest().stdout.no_fnmatch_line("Result: *")
