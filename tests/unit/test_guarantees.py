"""Each guarantee of ``docs/promise.md`` names what proves it, and that exists."""

from __future__ import annotations

import re

import pytest

from tests.unit.documents import ROOT

SECTION = (ROOT / "docs/promise.md").read_text().partition("## How each guarantee is proved\n")[2]
ROWS = re.findall(r"^\| (.+) \| (.+) \|$", SECTION, re.MULTILINE)[1:]


def existing_tests() -> set[str]:
    """The names of all tests."""
    texts = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py")]
    return {
        name for text in texts for name in re.findall(r"^(?:async )?def (test_\w+)\(", text, re.MULTILINE)
    }


def test_every_guarantee_names_what_proves_it() -> None:
    assert len(ROWS) > 20
    assert not [guarantee for guarantee, proof in ROWS if not re.search(r"`(make|test_)", proof)]


def test_every_test_that_proves_a_guarantee_exists() -> None:
    named = {name for _, proof in ROWS for name in re.findall(r"`(test_\w+)`", proof)}

    assert named - existing_tests() == set()


@pytest.mark.parametrize(
    ("pattern", "files", "definition"),
    [
        (r"`make ([a-z-]+)`", "Makefile", r"^([a-z-]+):.* ## "),
        (r"rule (\d+)", "tests/simulation/*.py", r"^(\d+)\. "),
    ],
)
def test_every_command_and_rule_that_proves_a_guarantee_exists(
    pattern: str, files: str, definition: str
) -> None:
    named = {name for _, proof in ROWS for name in re.findall(pattern, proof)}

    text = "\n".join(path.read_text() for path in ROOT.glob(files))
    assert named
    assert named <= set(re.findall(definition, text, re.MULTILINE))
