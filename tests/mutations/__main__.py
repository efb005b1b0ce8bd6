"""
``make mutations``: seeds each fault into a copy of the package, and runs the unit tests that must notice it.

Takes some minutes, and fails if a fault is not noticed. Run it after changes to dispatch, triggers
or their tests.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mutations.fault import Fault
from tests.mutations.faults import FAULTS

ROOT = Path(__file__).parents[2]
PACKAGE = "airflow_provider_workflow"
COPIED = (
    PACKAGE,
    "benchmarks",
    "tests",
    "tools",
    "dags_examples",
    "docs",
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
)
LONGEST_RUN_SECONDS = 600


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Seed the chosen faults, one after the other.

    :return: the exit code: 0 if all were noticed.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("only", nargs="*", help="seed only faults whose name contains one of these")
    chosen = parser.parse_args(arguments).only
    faults = [each for each in FAULTS if not chosen or any(part in each.name for part in chosen)]
    with tempfile.TemporaryDirectory(prefix="workflow-mutations-") as folder:
        copy = Path(folder)
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, copy)
        unnoticed = [each for each in faults if not is_noticed(each, copy)]
    print(f"{len(faults) - len(unnoticed)} of {len(faults)} faults were noticed")
    for each in unnoticed:
        print(f"not noticed: {each.name} ({each.function})")
    return 1 if unnoticed else 0


def is_noticed(fault: Fault, root: Path) -> bool:
    """Whether a unit test fails on the copy below ``root`` with the fault in it."""
    file, faulty = fault.seeded(root / PACKAGE)
    source = file.read_text()
    tests = sorted(str(path.relative_to(root)) for pattern in fault.tests for path in root.glob(pattern))
    began_at = time.monotonic()
    try:
        file.write_text(faulty)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            timeout=LONGEST_RUN_SECONDS,
            check=False,
        )
    finally:
        file.write_text(source)
    # 1: tests failed. Anything else, such as 2 for an error of collection, is no test that noticed.
    failed = next((line for line in done.stdout.splitlines() if line.startswith("FAILED")), "")
    print(f"{fault.name}: {failed or done.stdout[-300:]} ({time.monotonic() - began_at:.0f} s)", flush=True)
    return done.returncode == 1 and bool(failed)


if __name__ == "__main__":
    sys.exit(main())
