"""No example DAG is forgotten by the test that runs them all."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.examples import EXAMPLES
from tests.unit.documents import DOCS

FOLDER = Path(__file__).resolve().parents[2] / "dags_examples"
FILES = {path.name: path.read_text() for path in FOLDER.glob("*.py")}
TESTS = DOCS / "examples" / "testing" / "example_dags"


def test_every_example_is_run_by_a_test() -> None:
    assert set(FILES) == set(EXAMPLES), (
        "Each file of dags_examples/ needs an entry in EXAMPLES of tests/e2e/examples.py: what to put and to"
        " start, and what is to be seen then. tests/e2e/test_examples.py runs it."
    )


def test_an_example_is_put_into_the_inbox_that_it_names() -> None:
    inboxes = {file: example.inbox for file, example in EXAMPLES.items() if example.put}

    assert [file for file, inbox in inboxes.items() if f'"{inbox}"' not in FILES[file]] == []
    assert [file for file, example in EXAMPLES.items() if example.inbox and not example.put] == []


def test_every_example_has_a_test_for_users_to_copy() -> None:
    assert {path.name for path in TESTS.iterdir() if path.is_file()} == {f"test_{file}" for file in FILES}
