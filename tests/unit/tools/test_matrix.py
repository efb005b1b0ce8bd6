"""``make test-matrix``: each pair in an environment of its own, what came of it, and what was left out."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MAKEFILE = (ROOT / "Makefile").read_text()
PAIRS = re.findall(r"\S+:\S+", re.findall(r"^MATRIX \?= (.*)$", MAKEFILE, re.MULTILINE)[0])
MAIN_TESTS = re.findall(r"^MATRIX_E2E := (.*)$", MAKEFILE, re.MULTILINE)[0]


class Machine:
    """A machine whose Pythons, and the ``make`` that is called for a pair, are stubs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def has(self, command: str, code: int = 0) -> None:
        """There is a command, which ends with this code."""
        path = self.folder / command
        path.write_text(f'#!/bin/sh\necho "$*" >> {self.folder}/calls-of-{command}\nexit {code}\n')
        path.chmod(0o755)

    def test(self, *pairs: str) -> subprocess.CompletedProcess[str]:
        words = [f"MATRIX={' '.join(pairs)}", f"MAKE={self.folder}/make-of-pair"]
        path = {"PATH": f"{self.folder}:/usr/bin:/bin"}
        command = ["make", "--silent", "test-matrix", *words]
        return subprocess.run(command, cwd=ROOT, env=path, capture_output=True, text=True)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    machine.has("make-of-pair")
    return machine


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


def test_unit_tests_and_the_main_tests_run_in_an_environment_of_the_pair(machine: Machine) -> None:
    machine.has("python3.99")
    done = machine.test("3.2:3.99")

    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "Passed: 3.2:3.99. Failed: none.")
    pair = "AIRFLOW=3.2 PYTHON=python3.99 VENV=.matrix/airflow-3.2-python3.99"
    calls = (machine.folder / "calls-of-make-of-pair").read_text().splitlines()
    assert calls == [f"{pair} unit QUICK_ONES=", f"{pair} e2e E2E={MAIN_TESTS}"]


@pytest.mark.parametrize("code", [None, 127])
def test_a_python_that_is_not_there_is_reported_and_left_out(machine: Machine, code: int | None) -> None:
    machine.has("python3.99")
    if code is not None:
        machine.has("python3.98", code)
    done = machine.test("3.2:3.98", "3.3:3.99")

    assert done.returncode == 0
    assert "There is no python3.98 here: Airflow 3.2 is not tried with it." in done.stdout
    assert "Passed: 3.3:3.99. Failed: none." in done.stdout


def test_where_nothing_could_be_tried_nothing_passed(machine: Machine) -> None:
    assert machine.test("3.3:3.98").returncode != 0
