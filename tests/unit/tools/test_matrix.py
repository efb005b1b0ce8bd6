"""The pairs of Airflow and Python that ``make test-matrix`` tries."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
MAKEFILE = (ROOT / "Makefile").read_text()
PAIRS = re.findall(r"\S+:\S+", re.findall(r"^MATRIX \?= (.*)$", MAKEFILE, re.MULTILINE)[0])
MAIN_TESTS = re.findall(r"^MATRIX_E2E := (.*)$", MAKEFILE, re.MULTILINE)[0]


def test_each_pair_has_pins_and_each_python_that_is_supported_is_tried() -> None:
    airflows, pythons = zip(*(pair.split(":") for pair in PAIRS), strict=True)
    classified = (ROOT / "pyproject.toml").read_text()

    assert set(airflows) == {"3.2", "3.3", "3.4"}
    assert set(pythons) == {"3.11", "3.12", "3.13", "3.14"}
    assert all(f"Programming Language :: Python :: {python}" in classified for python in pythons)
    assert all((ROOT / "constraints" / f"airflow-{airflow}.txt").exists() for airflow in airflows)
    assert all((ROOT / test).exists() for test in MAIN_TESTS.split())


def test_the_readme_lists_what_is_tried() -> None:
    rows = re.findall(r"^\| (3\.\d+) \| (.+) \|$", (ROOT / "README.md").read_text(), re.MULTILINE)

    assert [f"{airflow}:{python}" for airflow, pythons in rows for python in pythons.split(", ")] == PAIRS
