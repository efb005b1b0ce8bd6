"""
Providers of other queues beside this one, on the same work in one run: the time from a message to the task
that gets it, messages lost and doubled while the triggerer is killed, idle CPU, CPU of polls, lines of DAG
code.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.peers.idle import NOTHING, WATCHED, Watcher, measure
from benchmarks.peers.trial import Counted, Trial
from benchmarks.peers.ways import DAGS, Queues, Way, every_queue
from benchmarks.process import Seen
from benchmarks.results import Row, Series, Target, alone, there
from benchmarks.scale.deployment import metadata_database
from benchmarks.scale.wanted import Wanted
from benchmarks.stage import ROOT, private_folder
from tools.local_airflow import LocalAirflow

IDLE_SECONDS = 20.0
"""From the DAGs' first sight until the first message, in which every watcher begins to wait."""
HEALING = {
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "2",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "10",
    "AIRFLOW__TRIGGERER__SHARED_STREAM_ACK_TIMEOUT": "30",
}
"""
How soon a triggerer takes over what a killed one had, 30 s by default; and how long a message waits until its
event is stored, 300 s by default, which a lease has to outlast.
"""
NONE = Target("ours", "<=", 0)
OURS = ("ours", "ours_event")


@dataclass(frozen=True)
class Size:
    """
    How much is measured.

    :param rounds: messages to each way, one by one.
    :param kills: of the triggerer.
    :param burst: messages to each way before each kill.
    :param windows: in which idle triggers are measured.
    """

    rounds: int = 15
    kills: int = 8
    burst: int = 5
    windows: int = 3


QUICK = Size(rounds=1, kills=1, burst=1, windows=1)


@dataclass(frozen=True)
class Found:
    """
    What was seen of one way.

    :param taken: seconds from each message to its task; None where it had none in time.
    :param counted: messages among kills.
    :param shares: CPU of idle triggers, in percent of a core, window by window.
    :param per_1000_polls: seconds of CPU, window by window; empty where nothing polls.
    """

    taken: Series
    counted: Counted
    shares: Sequence[float]
    per_1000_polls: Sequence[float] = ()


def run(wanted: Wanted) -> list[Row]:
    """Measure; ``messages`` is the number of rounds of messages one by one."""
    size = QUICK if wanted.quick else Size()
    if wanted.messages:
        size = replace(size, rounds=wanted.messages)
    found: dict[str, Found] = {}
    with every_queue() as queues:
        idle = _idle(queues, size)
        for ways in together(queues.ways):
            found |= _tried(queues, ways, idle, size)
    return rows(queues.ways, found, size)


def together(ways: Sequence[Way]) -> list[Sequence[Way]]:
    """Which ways share an Airflow."""
    return [[way for way in ways if not way.alone], *([way] for way in ways if way.alone)]


@dataclass(frozen=True)
class Idle:
    """What triggerers were seen to take while nothing arrived, by what they watched."""

    seen: Mapping[Watcher, Seen]

    @property
    def anyway(self) -> float:
        """Percent of a core that a triggerer takes without any triggers."""
        return statistics.median(self.seen[NOTHING].shares)

    def shares(self, way: Way) -> list[float]:
        """CPU of its triggers, in percent of a core, beyond that of a triggerer without any."""
        return [each - self.anyway for each in self.seen[way.watcher].shares]

    def per_1000_polls(self, way: Way) -> list[float]:
        """Seconds of CPU; empty where nothing polls."""
        return there(self.seen[way.poller].per_1000_polls(self.anyway)) if way.poller else []


def _idle(queues: Queues, size: Size) -> Idle:
    every = (NOTHING, *(each for way in queues.ways for each in (way.watcher, way.poller) if each))
    seen: dict[Watcher, Seen] = {}
    for watcher in dict.fromkeys(every):
        print(f"  idle: {watcher.trigger or 'a triggerer without triggers'} ...", flush=True)
        seen[watcher] = measure(watcher, queues.connections, {**queues.env, **HEALING}, size.windows)
    return Idle(seen)


def _tried(queues: Queues, ways: Sequence[Way], idle: Idle, size: Size) -> dict[str, Found]:
    """Send messages to these ways, in a new Airflow with their DAGs alone."""
    names = [way.name for way in ways]
    with metadata_database() as database, private_folder() as home:
        (home / "dags").mkdir()
        for name in names:
            shutil.copy(DAGS / f"{name}.py", home / "dags")
        env = {
            **queues.env,
            **HEALING,
            "PYTHONPATH": str(ROOT),
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5",
        }
        with LocalAirflow(
            home,
            home / "dags",
            queues.connections,
            env=env,
            parallelism=8,
            sql_alchemy_conn=database.url,
            quick=False,
        ) as airflow:
            airflow.wait_for_dags(names)
            time.sleep(IDLE_SECONDS)
            trial = Trial(airflow, database, ways)
            print(f"  one by one: {', '.join(names)} ...", flush=True)
            taken = trial.one_by_one(size.rounds)
            print(f"  among kills: {', '.join(names)} ...", flush=True)
            counted = trial.among_kills(size.kills, size.burst, size.rounds + 1)
    found = {
        way.name: Found(taken[way.name], counted[way.name], idle.shares(way), idle.per_1000_polls(way))
        for way in ways
    }
    print(markdown(ways, found), flush=True)
    return found


def rows(ways: Sequence[Way], found: Mapping[str, Found], size: Size) -> list[Row]:
    """What was seen of each way."""
    every = []
    for way in ways:
        of = found[way.name]
        among = f"{way}, {len(of.counted.sent)} messages among {size.kills} kills of the triggerer"
        promised = NONE if way.name in OURS else None
        if there(of.taken):
            every.append(alone(f"{way}: sent to its task running", "s", there(of.taken)))
        late = sum(each is None for each in of.taken)
        every += [
            alone(f"{way}: not handled in time", "messages", [late]),
            alone(f"{among}: lost", "messages", [of.counted.lost], promised),
            alone(f"{among}: handled more than once", "messages", [of.counted.twice]),
            alone(f"{way}: CPU of {WATCHED} idle triggers", "% of a core", of.shares),
            alone(f"{way}: lines of DAG code", "lines", [way.lines]),
        ]
        if of.per_1000_polls:
            every.append(alone(f"{way}: CPU per 1000 polls", "s", of.per_1000_polls))
    return every


def markdown(ways: Sequence[Way], found: Mapping[str, Found]) -> str:
    """The same as a table of a page."""
    lines = [
        f"| | seconds to its task | lost | twice | CPU of {WATCHED} idle triggers | CPU per 1000 polls "
        "| lines of DAG code |",
        "|---|---|---|---|---|---|---|",
    ]
    for way in ways:
        of = found[way.name]
        taken = there(of.taken)
        cells = (
            str(way),
            f"{statistics.median(taken):.1f}" if taken else "none in time",
            f"{of.counted.lost} of {len(of.counted.sent)}",
            str(of.counted.twice),
            f"{statistics.median(of.shares):.1f} %",
            f"{statistics.median(of.per_1000_polls):.2f} s" if of.per_1000_polls else "no polls",
            str(way.lines),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
