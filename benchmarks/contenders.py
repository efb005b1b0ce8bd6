"""The ways from a message to a DAG run whose latency is compared, and how each is given its messages."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_workflow.emulator.server import EmulatorServer
from benchmarks.fifo import tell
from benchmarks.sqs import Queues

SENSORS = ("sensor_on", "sensor_off")
WATCHERS = ("notice", "event")
"""They wait at one inbox, of their name."""
OURS = (*SENSORS, *WATCHERS)
FLOOR, PEER, SLOW_PEER = "floor", "peer_fastest", "peer_default"
SHOWN = {
    "sensor_on": "sensor, event stream on",
    "sensor_off": "sensor, event stream off, 5 s polls",
    "notice": "notice recipe",
    "event": "event trigger",
    FLOOR: "trigger without network, supervisor call",
    PEER: "SqsSensor, TriggerDagRunOperator, at their fastest",
    SLOW_PEER: "SqsSensor, TriggerDagRunOperator, at defaults",
}


@dataclass(frozen=True)
class Contender:
    """
    One way.

    :param name: of its listener's DAG.
    :param opens: creates a place of this name for one listener to wait at, and returns how the listener is
        told of it; None for an asset watcher, which waits at one place from the beginning.
    :param puts: hands one message to a place.
    """

    name: str
    opens: Callable[[str], str] | None
    puts: Callable[[str], None]

    @property
    def target(self) -> str:
        """The DAG whose runs are waited for."""
        return target_of(self.name)


def target_of(name: str) -> str:
    """The DAG that a contender starts."""
    return f"{name}_target"


def contenders(service: EmulatorServer, queues: Queues, pipes: Path) -> dict[str, Contender]:
    """
    All of them, by name.

    :param pipes: a directory for the named pipes of the floor.
    """

    def inbox(name: str) -> str:
        service.open_inbox(name)
        return name

    def pipe(name: str) -> str:
        os.mkfifo(pipes / name)
        return str(pipes / name)

    def put(place: str) -> None:
        service.put(place, {"number": 1})

    def send(place: str) -> None:
        queues.send(place, {"number": 1})

    every = [
        *(Contender(name, inbox, put) for name in SENSORS),
        *(Contender(name, None, put) for name in WATCHERS),
        *(Contender(name, queues.open_queue, send) for name in (PEER, SLOW_PEER)),
        Contender(FLOOR, pipe, tell),
    ]
    return {each.name: each for each in every}
