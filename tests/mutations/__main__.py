"""
``make mutations``: seeds one fault after the other into the package, and runs the unit tests that execute it.

Each fault must make a test fail: all in ``dispatch``, and 98 % of all. With ``ALL_TESTS=1`` all tests of a
fault run, not only until the first failure, and the results say for each fault which tests notice it.
"""

from __future__ import annotations

import argparse
import json
import os
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
from tools.evidence import print_result

COUNT = 200
"""Of all faults; those without a name of their own are made with operators."""
REQUIRED = 0.98
"""Of all faults."""


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Seed the chosen faults, and write what was noticed.

    :return: the exit code: 0 if enough were noticed.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("only", nargs="*", help="seed only faults whose name contains one of these")
    parser.add_argument("--workers", type=int, default=2, help="number of processes (default: %(default)s)")
    parser.add_argument("--all-tests", action="store_true", help="run all tests of each fault")
    parser.add_argument("--json", type=Path, default=Path(".mutations.json"), help="where to write")
    options = parser.parse_args(arguments)
    faults = [
        fault
        for fault in all_faults()
        if not options.only or any(part in fault.name for part in options.only)
    ]
    with tempfile.TemporaryDirectory(prefix="workflow-mutations-") as folder:
        # Below it pytest makes a directory for each fork; one that is named would be emptied by each.
        os.environ["PYTEST_DEBUG_TEMPROOT"] = folder
        forks = Forks(faults, Path(folder), workers=options.workers, first_only=not options.all_tests)
        arguments_of_pytest = ["tests/unit", "-q", "-m", "not program", "-p", "no:cacheprovider"]
        if exit_code := pytest.main(arguments_of_pytest, plugins=[forks]):
            return int(exit_code)
    options.json.write_text(json.dumps([asdict(outcome) for outcome in forks.outcomes], indent=1))
    return report(forks.outcomes, forks.left_out)


def all_faults() -> list[Fault]:
    """The faults with a name, and as many others as make ``COUNT``."""
    return [*FAULTS, *generated(PACKAGE, COUNT - len(FAULTS))]


def report(outcomes: Sequence[Outcome], left_out: Sequence[str]) -> int:
    """
    Print the score of each room and what was not noticed; return the exit code.

    :param left_out: tests that were not asked, as they fail without a fault.
    """
    total: Counter[str] = Counter()
    noticed_faults: Counter[str] = Counter()
    for outcome in outcomes:
        total[outcome.room] += 1
        noticed_faults[outcome.room] += outcome.is_noticed
    for room in sorted(total):
        print(f"{room}: {noticed_faults[room]} of {total[room]}")
    for outcome in outcomes:
        if not outcome.is_noticed:
            print(f"not noticed: {outcome.name} ({outcome.ran} tests)")
    rooms = ", ".join(f"{room} {noticed_faults[room]}/{total[room]}" for room in sorted(total))
    print_result(
        f"{noticed_faults.total()} of {total.total()} faults were noticed: {rooms};"
        f" tests that fail without a fault: {', '.join(left_out) or 'none'}"
    )
    is_enough = (
        noticed_faults["dispatch"] == total["dispatch"] and noticed_faults.total() >= REQUIRED * total.total()
    )
    return 0 if is_enough else 1


if __name__ == "__main__":
    sys.exit(main())
