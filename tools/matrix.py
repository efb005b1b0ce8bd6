"""
``make test-matrix``: the unit tests, and the main end-to-end tests, on each supported Airflow and Python.

Each pair has an environment of its own below ``.matrix``, with its pins in ``constraints``. A Python that is
not installed is reported and skipped.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

PAIRS = (
    "3.2:3.11",
    "3.2:3.13",
    "3.3:3.11",
    "3.3:3.12",
    "3.3:3.13",
    "3.3:3.14",
    "3.4:3.11",
    "3.4:3.13",
    "3.4:3.14",
)
"""
Airflow and Python: for each Airflow its oldest and newest Python, and each Python at least once. Airflow 3.4
is a pre-release: the pins are those of 3.4.0b2.
"""
MAIN_TESTS = (
    "tests/e2e/test_distribution.py",
    "tests/e2e/test_listener.py",
    "tests/e2e/test_queues_of_triggerers.py",
    "tests/e2e/page",
)
"""
The main end-to-end tests: the wheel with the first DAG of the README, the listener, what only the newest
Airflow has, and the page in a browser.
"""
COUNTED = re.compile(r"(\d+) (passed|failed|skipped|errors?)")


@dataclass(frozen=True)
class Pair:
    """
    :param airflow: major and minor version of Airflow.
    :param python: major and minor version of Python.
    """

    airflow: str
    python: str

    @classmethod
    def of(cls, text: str) -> Pair:
        """
        :raises ValueError: the text is not a pair such as ``3.2:3.11``.
        """
        if not re.fullmatch(r"3\.\d+:3\.\d+", text):
            raise ValueError(f"MATRIX must be pairs of Airflow and Python such as {PAIRS[0]}, not {text!r}")
        return cls(*text.split(":"))

    def make(self, *arguments: str) -> subprocess.Popen[str]:
        """Run make for this pair."""
        command = [
            "make",
            f"AIRFLOW={self.airflow}",
            f"PYTHON=python{self.python}",
            f"VENV=.matrix/airflow-{self.airflow}-python{self.python}",
            *arguments,
        ]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@dataclass(frozen=True)
class Outcome:
    """
    The results of the tests of a pair.

    :param unit: pytest's counts of the unit tests.
    :param main: pytest's counts of the main end-to-end tests.
    :param ok: whether both passed.
    """

    pair: Pair
    unit: str
    main: str
    ok: bool


def main(wanted: list[str]) -> int:
    """Run all pairs; return 0 if all that could be run passed."""
    pairs = [Pair.of(text) for text in wanted or PAIRS]
    outcomes = list(_outcomes(pairs))
    print(f"\n{'Airflow':9}{'Python':8}{'unit tests':44}main end-to-end tests")
    for each in outcomes:
        print(f"{each.pair.airflow:9}{each.pair.python:8}{each.unit:44}{each.main}")
    return 0 if outcomes and all(each.ok for each in outcomes) else 1


def _outcomes(pairs: list[Pair]) -> Iterator[Outcome]:
    for pair in pairs:
        if not _runs(f"python{pair.python}"):
            print(f"There is no python{pair.python} here: Airflow {pair.airflow} is not tried with it.")
            continue
        unit, unit_ok = _run(pair, "unit", "QUICK_ONES=")
        main_test, main_ok = _run(pair, "e2e", f"E2E={' '.join(MAIN_TESTS)}")
        yield Outcome(pair, unit, main_test, unit_ok and main_ok)


def _runs(python: str) -> bool:
    """Whether this Python is installed and runs; an inactive shim of a version manager does not run."""
    try:
        return subprocess.run([python, "--version"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def _run(pair: Pair, *arguments: str) -> tuple[str, bool]:
    """Run make and show its output; return pytest's counts, and whether it passed."""
    print(f"\n== Airflow {pair.airflow}, Python {pair.python}: {arguments[0]}", flush=True)
    last = ""
    with pair.make(*arguments) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line if COUNTED.search(line) else last
    counted = ", ".join(f"{count} {what}" for count, what in COUNTED.findall(last))
    return counted or "did not run", process.returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
