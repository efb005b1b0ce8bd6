"""
``make bench``: runs the benchmarks, and shows one table of what they found.

Figures are comparable within one run only: ratios to what is measured beside them, in turns, on the same
machine. A target that is missed is shown, and fails nothing.
"""

from __future__ import annotations

import argparse
import compileall
import importlib
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.report import table, write_json
from tests.benchmarks.results import Row

NAMES = ("parse", "client", "throughput", "latency", "waiting", "growth", "rendering", "page")
"""Each a module beside this one, with ``run(quick)``; those without an Airflow come first."""
JSON = Path(".bench/results.json")
ROOT = Path(__file__).parents[2]
COMPILED = ("airflow_provider_workflow", "tests/benchmarks")


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line, run, show and write."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--only", choices=NAMES, action="append", help="run this one; may be repeated")
    parser.add_argument("--quick", action="store_true", help="few repeats, to see that it works")
    parser.add_argument("--json", type=Path, default=JSON, help="where to write (default: %(default)s)")
    options = parser.parse_args(arguments)
    compile_all()
    found: dict[str, list[Row]] = {}
    for name in options.only or NAMES:
        print(f"{name} ...", flush=True)
        found[name] = importlib.import_module(f"tests.benchmarks.{name}").run(options.quick)
    print(f"\n{table(found)}")
    write_json(found, options.json)
    print(f"Written to {options.json}.")


def compile_all() -> None:
    """
    Write the bytecode that an installed package has.

    Each task imports the package in a process of its own; without bytecode, which
    ``PYTHONDONTWRITEBYTECODE`` causes in a clone, the time to compile it would be measured as well.
    """
    for folder in COMPILED:
        compileall.compile_dir(ROOT / folder, quiet=1)


if __name__ == "__main__":
    main()
