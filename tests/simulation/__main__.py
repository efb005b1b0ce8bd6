"""
``make simulate``: play many histories, each from a seed of its own.

A seed whose history breaks a rule is printed with its history, and how to play it again. Exit code 0 only if
all rules hold in all histories.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from multiprocessing import get_context

from tests.mutations.faults import fault
from tests.mutations.seeded import seeded
from tests.simulation import batches
from tests.simulation.play import play, staged
from tools.evidence import print_result

CHUNK = 250
MAX_SHOWN = 3
MAX_HISTORY_LINES = 400
"""Lines of a history that are printed, from its end."""
BATCHES_EVERY = 20
"""One of this many seeds plays a history of batches too."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100_000, help="number of histories")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--workers", type=int, default=2, help="number of processes")
    parser.add_argument("--history", action="store_true", help="print each history")
    options = parser.parse_args(arguments)
    began_at = time.monotonic()
    seeds = range(options.seed, options.seed + options.seeds)
    failed = failures(seeds, options.workers)
    seconds = time.monotonic() - began_at
    for seed in list(seeds) if options.history else sorted(failed)[:MAX_SHOWN]:
        show(seed)
    for seed, rule in sorted(failed.items())[MAX_SHOWN:]:
        print(f"Seed {seed}: {rule}")
    print(f"{seconds:.1f} s, {seconds / len(seeds) * 1000:.2f} ms each")
    print_result(f"{len(failed)} of {len(seeds)} histories, from seed {options.seed} on, broke a rule")
    return 1 if failed else 0


def failures(seeds: Sequence[int], workers: int) -> dict[int, str]:
    """The seeds whose history breaks a rule, with the rule."""
    chunks = [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]
    if workers < 2 or len(chunks) < 2:
        return {seed: rule for chunk in chunks for seed, rule in played(chunk)}
    with get_context("fork").Pool(workers) as pool:
        return {seed: rule for results in pool.imap_unordered(played, chunks) for seed, rule in results}


def played(seeds: Sequence[int]) -> list[tuple[int, str]]:
    """Play some seeds, and return those that break a rule, with the rule."""
    with staged():
        return [(seed, rule) for seed in seeds if (rule := broken_rule(seed))]


def broken_rule(seed: int, lines: list[str] | None = None) -> str:
    """Play the histories of a seed, and return the rule that does not hold, or an empty string."""
    rule = play(seed, lines)
    return batches.play(seed, lines) if not rule and seed % BATCHES_EVERY == 0 else rule


def is_noticed(name: str, seeds: range) -> bool:
    """Whether a history breaks a rule with the fault of this name."""
    with staged(), seeded(fault(name)):
        return any(map(play, seeds))


def show(seed: int) -> None:
    """Print the history of a seed."""
    lines: list[str] = []
    with staged():
        rule = broken_rule(seed, lines)
    print("\n".join(lines[-MAX_HISTORY_LINES:]))
    print(f"Seed {seed}: {rule or 'all rules hold'}. Play it again: make simulate SEED={seed} SEEDS=1")


if __name__ == "__main__":
    os.environ.setdefault("PYTHONHASHSEED", "0")
    sys.exit(main())
