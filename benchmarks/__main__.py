"""
``make bench``: runs the benchmarks, and shows one table of what they measured.

Figures are comparable within one run only: ratios to what is measured beside them, in turns, on the same
machine.
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

from benchmarks import plots
from benchmarks.results import Row, table, write_json
from benchmarks.servers import RABBITMQ_VARIABLE, check_servers
from tests.crash.topology import POSTGRES_VARIABLE, REDIS_VARIABLE
from tools.evidence import print_result

SCALE, PEERS = "scale", "peers"
NAMES = ("parse", "client", "throughput", "payloads", "latency", "waiting", "growth", "rendering", "page")
"""Each a module beside this one; those without an Airflow come first."""
PARTS = tuple(f"{SCALE}-{name}" for name in ("watchers", "runs", "neighbor", "finished", "latency"))
SERVERS = {
    **{name: [POSTGRES_VARIABLE] for name in PARTS},
    f"{SCALE}-finished": [POSTGRES_VARIABLE, REDIS_VARIABLE],
    PEERS: [POSTGRES_VARIABLE, REDIS_VARIABLE, RABBITMQ_VARIABLE],
}
"""Which servers a benchmark needs."""
JSON = Path(".bench/results.json")
ROOT = Path(__file__).parents[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, run, show and write; the exit code is 1 if a benchmark failed."""
    options = parse(arguments)
    parts = [part for name in options.only or NAMES for part in (PARTS if name == SCALE else (name,))]
    names = list(dict.fromkeys(parts))
    try:
        check_servers(*(variable for name in names for variable in SERVERS.get(name, ())))
    except RuntimeError as error:
        sys.exit(str(error))
    rows_by_benchmark: dict[str, list[Row]] = {}
    failures = []
    for name in names:
        print(f"{name} ...", flush=True)
        try:
            rows_by_benchmark[name] = run(name, options)
        except Exception:
            # What was measured before is kept, and the others have their turns.
            traceback.print_exc()
            failures.append(name)
        write_json(rows_by_benchmark, options.json, quick=options.quick)
    print(f"\n{table(rows_by_benchmark)}\nWritten to {options.json}.")
    if options.plots:
        files = plots.draw(rows_by_benchmark, options.plots, quick=options.quick)
        print(f"Drawn: {', '.join(map(str, files)) or 'nothing, as nothing of it has a plot'}.")
    if failures:
        print(f"Failed: {', '.join(failures)}.")
    rows = [row for measured in rows_by_benchmark.values() for row in measured]
    # Times are comparable within one run only, which its table shows; counts are what they are.
    counts = [f"{row.what}: {row.ours}" for row in rows if row.unit == "messages"]
    what = f"{'quick, ' if options.quick else ''}{', '.join(rows_by_benchmark) or 'nothing'}"
    print_result("; ".join([f"{len(rows)} figures of {what}", *counts]))
    return 1 if failures else 0


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


def run(name: str, options: argparse.Namespace) -> list[Row]:
    """Run one benchmark."""
    numbers = {}
    if name == f"{SCALE}-watchers":
        numbers = {"sizes": options.sizes}
    elif name in (*PARTS, PEERS):
        numbers = {"messages": options.messages}
    module = "peers.peers" if name == PEERS else name.replace("-", ".")
    rows: list[Row] = importlib.import_module(f"benchmarks.{module}").run(quick=options.quick, **numbers)
    return rows


def compile_all() -> None:
    """
    Write the bytecode that an installed package has.

    Each task imports the package in a process of its own; without bytecode, which
    ``PYTHONDONTWRITEBYTECODE`` causes in a clone, the time to compile it would be measured as well.
    """
    for folder in ("airflow_provider_workflow", "benchmarks"):
        compileall.compile_dir(ROOT / folder, quiet=1)


if __name__ == "__main__":
    # As for Ctrl-C: what was started is ended, and databases are dropped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    compile_all()
    sys.exit(main())
