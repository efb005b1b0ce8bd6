"""``make test-matrix``: each pair in an environment of its own, what came of it, and what was left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import matrix

ROOT = Path(__file__).parents[3]
MAKE = """#!/bin/sh
echo "$*" >> {folder}/asked
echo "SKIPPED [1] a reason that counts 9 passed"
echo "=== {counted} in 1.00s ==="
echo "make: the end"
exit {code}
"""


class Machine:
    """A machine whose ``make`` and Pythons are made up."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.has_make("3 passed, 1 skipped")

    def has_make(self, counted: str, code: int = 0) -> None:
        """``make`` prints what pytest counted, and ends with this code."""
        self._executable("make", MAKE.format(folder=self.folder, counted=counted, code=code))

    def has_python(self, version: str, code: int = 0) -> None:
        """There is a ``python3.X``; with another code than 0 it only stands in for one."""
        self._executable(f"python{version}", f"#!/bin/sh\nexit {code}\n")

    @property
    def asked(self) -> list[str]:
        """What ``make`` was asked for, call by call."""
        return (self.folder / "asked").read_text().splitlines()

    def _executable(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("PATH", str(tmp_path))
    return Machine(tmp_path)


def test_every_pair_has_pins_and_every_python_that_is_supported_is_tried() -> None:
    airflows, pythons = zip(*map(matrix.split, matrix.PAIRS), strict=True)
    classified = (ROOT / "pyproject.toml").read_text()

    assert set(airflows) == {"3.2", "3.3", "3.4"}
    assert set(pythons) == {"3.11", "3.12", "3.13", "3.14"}
    assert all(f"Programming Language :: Python :: {python}" in classified for python in pythons)
    assert all((ROOT / "constraints" / f"airflow-{airflow}.txt").exists() for airflow in airflows)
    assert all((ROOT / test).exists() for test in matrix.MAIN_TESTS)


def test_the_readme_lists_what_is_tried() -> None:
    rows = re.findall(r"^\| (3\.\d+) \| (.+) \|$", (ROOT / "README.md").read_text(), re.MULTILINE)

    assert [f"{airflow}:{python}" for airflow, pythons in rows for python in pythons.split(", ")] == [
        *matrix.PAIRS
    ]


@pytest.mark.parametrize("text", ["3.3", "3.3:3.13:1", "3.3:python3.13", "2.9:3.11"])
def test_what_is_no_pair_is_named_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=f"such as 3.2:3.11, not {text!r}"):
        matrix.main([text])


def test_unit_tests_and_the_main_tests_run_in_an_environment_of_the_pair(machine: Machine) -> None:
    machine.has_python("3.12")

    assert matrix.main(["3.2:3.12"]) == 0
    pair = "AIRFLOW=3.2 PYTHON=python3.12 VENV=.matrix/airflow-3.2-python3.12"
    assert machine.asked == [f"{pair} unit QUICK_ONES=", f"{pair} e2e E2E={' '.join(matrix.MAIN_TESTS)}"]


def test_the_last_count_of_each_pair_is_shown_at_the_end(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.has_python("3.11")
    matrix.main(["3.2:3.11"])

    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "Airflow 3.2, Python 3.11: unit 3 passed, 1 skipped; end-to-end 3 passed, 1 skipped"


@pytest.mark.parametrize("counted", ["1 failed, 2 passed", "nothing"])
def test_one_that_fails_fails_it_all(machine: Machine, counted: str) -> None:
    machine.has_python("3.11")
    machine.has_make(counted, code=2)

    assert matrix.main(["3.2:3.11"]) != 0


@pytest.mark.parametrize("code", [None, 127])
def test_a_python_that_is_not_there_is_said_and_left_out(
    machine: Machine, capsys: pytest.CaptureFixture[str], code: int | None
) -> None:
    machine.has_python("3.11")
    if code is not None:
        machine.has_python("3.13", code)

    assert matrix.main(["3.2:3.13", "3.3:3.11"]) == 0
    assert "There is no python3.13 here: Airflow 3.2 is not tried with it." in capsys.readouterr().out
    assert all("3.13" not in each for each in machine.asked)


def test_where_nothing_could_be_tried_nothing_passed(machine: Machine) -> None:
    assert matrix.main(["3.3:3.13"]) != 0
