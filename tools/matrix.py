"""
``make test-matrix``: the unit tests, and the main end-to-end tests, on each supported Airflow and Python.

Each pair has an environment of its own below ``.matrix``, with its pins in ``constraints``. A Python that is
not installed is reported and skipped.
"""

from __future__ import annotations

import re
import subprocess
import sys

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
COUNTED = re.compile(r"\d+ (?:passed|failed|skipped|errors?)")


def main(chosen: list[str]) -> int:
    """Run all pairs; return 0 if there were some, and all passed."""
    pairs = [split(text) for text in chosen or PAIRS]
    lines, outcomes = [], []
    for airflow, python in pairs:
        if not _runs(f"python{python}"):
            print(f"There is no python{python} here: Airflow {airflow} is not tried with it.")
            continue
        unit, unit_passed = _make(airflow, python, "unit", "QUICK_ONES=")
        main_tests, main_passed = _make(airflow, python, "e2e", f"E2E={' '.join(MAIN_TESTS)}")
        outcomes.append(unit_passed and main_passed)
        lines.append(f"Airflow {airflow}, Python {python}: unit {unit}; end-to-end {main_tests}")
    print("", *lines, sep="\n")
    return 0 if outcomes and all(outcomes) else 1


def split(pair: str) -> list[str]:
    """
    :return: the versions of Airflow and of Python.
    :raises ValueError: the text is not a pair such as ``3.2:3.11``.
    """
    if not re.fullmatch(r"3\.\d+:3\.\d+", pair):
        raise ValueError(f"MATRIX must be pairs of Airflow and Python such as {PAIRS[0]}, not {pair!r}")
    return pair.split(":")


def _runs(python: str) -> bool:
    """Whether this Python is installed and runs; an inactive shim of a version manager does not run."""
    try:
        return subprocess.run([python, "--version"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def _make(airflow: str, python: str, *arguments: str) -> tuple[str, bool]:
    """Run make for a pair, and show its output; return pytest's counts, and whether it passed."""
    print(f"\n== Airflow {airflow}, Python {python}: {arguments[0]}", flush=True)
    folder = f".matrix/airflow-{airflow}-python{python}"
    command = ["make", f"AIRFLOW={airflow}", f"PYTHON=python{python}", f"VENV={folder}", *arguments]
    counts: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            counts = COUNTED.findall(line) or counts
    return ", ".join(counts) or "did not run", process.returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
