"""
``make bench``: runs the benchmarks, and shows one table of what they found.

Figures are comparable within one run only: ratios to what is measured beside them, in turns, on the same
machine. A target that is missed is shown, and fails nothing.
"""

from __future__ import annotations

import argparse
import compileall
import importlib
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from benchmarks.report import table, write_json
from benchmarks.results import Row
from benchmarks.scale import plots
from benchmarks.scale.wanted import PARTS, PEERS, SCALE, Wanted, check, measure, with_parts

NAMES = ("parse", "client", "throughput", "latency", "waiting", "growth", "rendering", "page")
"""Each a module beside this one, with ``run(quick)``; those without an Airflow come first."""
JSON = Path(".bench/results.json")
ROOT = Path(__file__).parents[1]
COMPILED = ("airflow_provider_workflow", "benchmarks")


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, run, show and write; the exit code is 1 if a benchmark failed."""
    options = parse(arguments)
    names = with_parts(options.only or NAMES)
    try:
        check(names)
    except RuntimeError as error:
        sys.exit(str(error))
    wanted = Wanted(options.quick, tuple(options.sizes), options.messages)
    found: dict[str, list[Row]] = {}
    failed = []
    for name in names:
        print(f"{name} ...", flush=True)
        try:
            found[name] = run(name, wanted)
        except Exception:
            # What was measured before is kept, and the others have their turns.
            traceback.print_exc()
            failed.append(name)
        write_json(found, options.json, quick=options.quick)
    print(f"\n{table(found)}\nWritten to {options.json}.")
    if options.plots:
        print(f"Drawn: {plots.shown(plots.draw(found, options.plots, quick=options.quick))}.")
    if failed:
        print(f"Failed: {', '.join(failed)}.")
    return 1 if failed else 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only",
        choices=(*NAMES, PEERS, SCALE, *PARTS),
        action="append",
        help=f"run this; may be repeated. {SCALE} is all of {', '.join(PARTS)}; it and {PEERS} need servers",
    )
    parser.add_argument("--quick", action="store_true", help="few repeats, to see that it works")
    parser.add_argument("--json", type=Path, default=JSON, help="where to write (default: %(default)s)")
    numbers = {"type": int, "metavar": "N"}
    parser.add_argument(
        "--sizes", action="append", default=[], help="scale-watchers: inboxes; may be repeated", **numbers
    )
    parser.add_argument("--messages", help="parts of scale: messages of each measurement", **numbers)
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="draw the parts of scale there, as SVG")
    return parser.parse_args(arguments)


def run(name: str, wanted: Wanted) -> list[Row]:
    """Run one benchmark."""
    if name in (*PARTS, PEERS):
        return measure(name, wanted)
    rows: list[Row] = importlib.import_module(f"benchmarks.{name}").run(wanted.quick)
    return rows


def compile_all() -> None:
    """
    Write the bytecode that an installed package has.

    Each task imports the package in a process of its own; without bytecode, which
    ``PYTHONDONTWRITEBYTECODE`` causes in a clone, the time to compile it would be measured as well.
    """
    for folder in COMPILED:
        compileall.compile_dir(ROOT / folder, quiet=1)


if __name__ == "__main__":
    # As for Ctrl-C: what was started is ended, and databases are dropped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    compile_all()
    sys.exit(main())
