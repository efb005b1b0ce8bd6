"""
Providers of other queues beside this one, on the same work in one run: the time from a message to the task
that gets it, messages lost and doubled while the triggerer is killed, idle CPU, CPU of polls, lines of DAG
code.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.peers.trial import Counts, Trial
from benchmarks.peers.ways import WATCHED, Queues, Way, all_queues
from benchmarks.results import Row, alone
from benchmarks.servers import metadata_database
from benchmarks.stage import running_airflow
from benchmarks.watchers import SLEEPING, Trigger, measure_triggerer, watching

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


@dataclass(frozen=True)
class Size:
    """
    How much is measured.

    :param rounds: messages to each way, one by one.
    :param kills: of the triggerer.
    :param burst: messages to each way before each kill.
    :param seconds: in which idle triggers settle, and then are measured.
    """

    rounds: int = 15
    kills: int = 8
    burst: int = 5
    seconds: float = 30.0


QUICK = Size(rounds=1, kills=1, burst=1, seconds=10.0)


def run(*, quick: bool, messages: int | None = None) -> list[Row]:
    """Measure; ``messages`` is the number of rounds of messages one by one."""
    size = QUICK if quick else Size()
    if messages:
        size = replace(size, rounds=messages)
    rows: list[Row] = []
    with all_queues() as queues:
        rows += idle_rows(queues, size.seconds)
        for ways in together(queues.ways):
            rows += _tried(queues, ways, size)
    return [*rows, *(alone(f"{way}: lines of DAG code", "lines", [way.lines]) for way in queues.ways)]


def together(ways: Sequence[Way]) -> list[Sequence[Way]]:
    """Which ways share an Airflow."""
    return [[way for way in ways if not way.alone], *([way] for way in ways if way.alone)]


def idle_rows(queues: Queues, seconds: float) -> list[Row]:
    """CPU of idle triggers, beyond that of a triggerer without any."""
    shares: dict[Trigger | None, float] = {}

    def share_of(trigger: Trigger | None) -> float:
        if trigger not in shares:
            print(f"  idle: {trigger.made if trigger else 'no triggers'} ...", flush=True)
            count, env = WATCHED if trigger else 0, {**queues.env, **HEALING}
            with watching(count, trigger or SLEEPING, queues.connections, env, seconds) as airflow:
                shares[trigger] = measure_triggerer(airflow, lambda: 0, seconds).share
        return shares[trigger]

    rows = []
    for way in queues.ways:
        share = share_of(way.trigger) - share_of(None)
        rows.append(alone(f"{way}: CPU of {WATCHED} idle triggers", "% of a core", [share]))
        if way.poller:
            cost = (share_of(way.poller) - share_of(None)) / 100 / way.polls * 1000
            rows.append(alone(f"{way}: CPU per 1000 polls", "s", [cost]))
    return rows


def _tried(queues: Queues, ways: Sequence[Way], size: Size) -> list[Row]:
    """Send messages to these ways, in a new Airflow with their DAGs alone."""
    files = {way.name: way.source for way in ways}
    with (
        metadata_database() as database,
        running_airflow(
            files,
            queues.connections,
            list(files),
            env={**queues.env, **HEALING},
            parallelism=8,
            sql_alchemy_conn=database.url,
        ) as airflow,
    ):
        time.sleep(IDLE_SECONDS)
        trial = Trial(airflow, database, ways)
        print(f"  one by one: {', '.join(files)} ...", flush=True)
        seconds = trial.one_by_one(size.rounds)
        print(f"  among kills: {', '.join(files)} ...", flush=True)
        counts = trial.among_kills(size.kills, size.burst, size.rounds + 1)
    return [row for way in ways for row in rows_of(str(way), seconds[way.name], counts[way.name])]


def rows_of(way: str, seconds: Sequence[float | None], counts: Counts) -> list[Row]:
    """What was seen of one way; None is a message that no task got in time."""
    in_time = [duration for duration in seconds if duration is not None]
    among = f"{way}, {counts.sent} messages among kills of the triggerer"
    return [
        *([alone(f"{way}: sent to its task running", "s", in_time)] if in_time else []),
        alone(f"{way}: not handled in time", "messages", [len(seconds) - len(in_time)]),
        alone(f"{among}: lost", "messages", [counts.lost]),
        alone(f"{among}: handled more than once", "messages", [counts.twice]),
    ]
