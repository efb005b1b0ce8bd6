"""
``make mutations``: seeds one fault after the other into the package, and runs the unit tests that execute it.

Each fault must make a test fail: all in ``dispatch``, and 95 % of all. With ``MATRIX=1`` all tests of a fault
run, not only until the first failure, and the results say for each fault which tests notice it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.mutations.fault import Fault
from tests.mutations.faults import FAULTS
from tests.mutations.forks import Forks, Outcome
from tests.mutations.operators import generated
from tests.mutations.seeded import PACKAGE

COUNT = 200
"""Of all faults; those without a name of their own are made with operators."""
QUICK_ONES = "not slow and not program"
"""The tests of ``make unit``. Others start processes, in which there is no fault."""
REQUIRED = 0.95
"""Of all faults."""


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Seed the chosen faults, and write what was noticed.

    :return: the exit code: 0 if enough were noticed.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("only", nargs="*", help="seed only faults whose name contains one of these")
    parser.add_argument("--workers", type=int, default=2, help="number of processes (default: %(default)s)")
    parser.add_argument("--matrix", action="store_true", help="run all tests of each fault")
    parser.add_argument("--json", type=Path, default=Path(".mutations.json"), help="where to write")
    parser.add_argument("--part", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.part is not None:
        return run_part(options)
    with tempfile.TemporaryDirectory(prefix="workflow-mutations-") as folder:
        outcomes = [outcome for part in run_parts(options, Path(folder)) for outcome in part]
    options.json.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    return report(outcomes)


def run_parts(options: argparse.Namespace, folder: Path) -> list[list[Outcome]]:
    """Start a process for each part of the faults, and wait for all."""
    files = [folder / f"{part}.json" for part in range(options.workers)]
    processes = []
    for part, file in enumerate(files):
        chosen = ["--workers", str(options.workers), "--part", str(part), "--json", str(file), *options.only]
        if options.matrix:
            chosen.append("--matrix")
        environment = {**os.environ, "AIRFLOW_HOME": str(folder / f"airflow-{part}")}
        processes.append(
            subprocess.Popen([sys.executable, "-m", "tests.mutations", *chosen], env=environment)
        )
    exit_codes = [process.wait() for process in processes]
    if any(exit_codes):
        sys.exit("A process of the mutations failed.")
    return [[Outcome(**outcome) for outcome in json.loads(file.read_text())] for file in files]


def run_part(options: argparse.Namespace) -> int:
    """Collect the tests once, and run them for each fault of this part in a fork of the process."""
    faults = [
        fault
        for fault in all_faults()
        if not options.only or any(part in fault.name for part in options.only)
    ]
    forks = Forks(faults[options.part :: options.workers], options.json, first_only=not options.matrix)
    basetemp = options.json.with_suffix(".tests")
    chosen = ["tests/unit", "-q", "-m", QUICK_ONES, f"--basetemp={basetemp}", "-p", "no:cacheprovider"]
    return int(pytest.main(chosen, plugins=[forks]))


def all_faults() -> list[Fault]:
    """The faults with a name, and as many others as make ``COUNT``."""
    return [*FAULTS, *generated(PACKAGE, COUNT - len(FAULTS))]


def report(outcomes: Sequence[Outcome]) -> int:
    """Print the score of each room and what was not noticed; return the exit code."""
    total: Counter[str] = Counter()
    noticed: Counter[str] = Counter()
    for outcome in outcomes:
        total[outcome.room] += 1
        noticed[outcome.room] += outcome.is_noticed
    for room in sorted(total):
        print(f"{room}: {noticed[room]} of {total[room]}")
    for outcome in outcomes:
        if not outcome.is_noticed:
            print(f"not noticed: {outcome.name} ({outcome.ran} tests)")
    print(f"{noticed.total()} of {total.total()} faults were noticed")
    is_enough = noticed["dispatch"] == total["dispatch"] and noticed.total() >= REQUIRED * total.total()
    return 0 if is_enough else 1


if __name__ == "__main__":
    sys.exit(main())
