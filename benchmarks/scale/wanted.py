"""Which parts there are, and how much of each is measured."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.results import Row
from benchmarks.scale.deployment import check_servers

SCALE = "scale"
PARTS = tuple(f"{SCALE}-{name}" for name in ("watchers", "runs", "neighbor", "finished", "latency"))
"""Each a module beside this one, with ``run(wanted)``."""
PEERS = "peers"
"""The comparison with other providers, which needs servers too."""


@dataclass(frozen=True)
class Wanted:
    """
    How much is measured.

    :param quick: little of everything, to see that it works.
    :param sizes: numbers of watched inboxes, in place of those of the part; empty for these.
    :param messages: of each measurement, in place of the part's number.
    """

    quick: bool = False
    sizes: Sequence[int] = ()
    messages: int | None = None


def with_parts(names: Sequence[str]) -> list[str]:
    """The names of benchmarks, with the parts in place of ``scale``, and each once."""
    every = [each for name in names for each in (PARTS if name == SCALE else (name,))]
    return list(dict.fromkeys(every))


def check(names: Sequence[str]) -> None:
    """
    :raises RuntimeError: a server that one of these benchmarks needs is not named.
    """
    for name in names:
        if name == PEERS:
            check_servers(redis=True, rabbitmq=True)
        elif name in PARTS:
            check_servers(redis=name == f"{SCALE}-finished")


def measure(part: str, wanted: Wanted) -> list[Row]:
    """Measure one part, or beside the peers."""
    name = "peers.peers" if part == PEERS else f"scale.{part.removeprefix(f'{SCALE}-')}"
    module = importlib.import_module(f"benchmarks.{name}")
    rows: list[Row] = module.run(wanted)
    return rows
