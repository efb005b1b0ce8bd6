"""``make simulate TEETH=1``: seed each fault, and see whether a history breaks a rule."""

from __future__ import annotations

from multiprocessing import get_context

from tests.mutations.fault import Fault
from tests.mutations.faults import OF_DISPATCH, fault
from tests.mutations.seeded import seeded
from tests.simulation.play import play, staged


def first_noticed(chosen: Fault, seeds: range) -> tuple[int, str] | None:
    """The first seed whose history breaks a rule with this fault, and the rule."""
    with staged(), seeded(chosen):
        for seed in seeds:
            if rule := play(seed):
                return seed, rule
    return None


def try_all(seeds: range, workers: int) -> bool:
    """Seed all faults, one after the other; whether each was noticed."""
    names = [each.name for each in OF_DISPATCH]
    with get_context("fork").Pool(max(1, workers)) as pool:
        found = pool.starmap(_noticed, [(name, seeds) for name in names], chunksize=1)
    for name, noticed in zip(names, found, strict=True):
        if noticed is not None:
            print(f"noticed: {name} (seed {noticed[0]}): {noticed[1]}")
        else:
            print(f"NOT noticed: {name}")
    return None not in found


def _noticed(name: str, seeds: range) -> tuple[int, str] | None:
    return first_noticed(fault(name), seeds)
