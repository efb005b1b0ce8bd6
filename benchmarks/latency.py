"""
How long from putting a message to its DAG run queued, while the listener waits in the triggerer and has
nothing else to do: our ways, beside SQS's, beside a trigger that needs no network at all.

All take turns in one Airflow, with single messages.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.contenders import (
    FLOOR,
    OURS,
    PEER,
    SHOWN,
    SLOW_PEER,
    WATCHERS,
    contenders,
    target_of,
)
from benchmarks.results import Figure, Row, Series, Target, paired, there
from benchmarks.sqs import queues
from benchmarks.stage import stage
from benchmarks.turns import Samples, Turns

ROUNDS = 50
QUICK_ROUNDS = 2
SLOW_SAMPLES = 10
"""Of the peer at its defaults, whose polls are 60 s apart."""
NEAR_THE_FLOOR = Target("ratio", "<=", 1.2)
AHEAD = Target("ratio", "<", 1)


def run(quick: bool) -> list[Row]:
    """Measure; ``quick`` with few rounds."""
    rounds = QUICK_ROUNDS if quick else ROUNDS
    targets = [target_of(name) for name in (*OURS, FLOOR, PEER, SLOW_PEER)]
    with queues() as sqs, tempfile.TemporaryDirectory() as pipes:
        given = {"aws_default": sqs.connection}
        with stage("latency", targets, WATCHERS, given) as (service, airflow):
            every = contenders(service, sqs, Path(pipes))
            slow = every.pop(SLOW_PEER)
            turns = Turns(airflow)
            samples = turns.taken(list(every.values()), rounds)
            samples[SLOW_PEER] = turns.side_by_side(slow, min(rounds, SLOW_SAMPLES))
    return rows(samples)


def rows(samples: Samples) -> list[Row]:
    """
    What is shown of them. Those with an event stream have targets.

    :raises RuntimeError: one of ours started nothing, ever.
    """
    found = [
        _row(samples, name, other, None if name == "sensor_off" else target)
        for other, target in ((FLOOR, NEAR_THE_FLOOR), (PEER, AHEAD))
        for name in OURS
    ]
    ours, slow = there(samples[OURS[0]]), there(samples[SLOW_PEER])
    figure = Figure.of(slow) if slow else None
    what, beside = _said(OURS[0], samples[OURS[0]]), _said(SLOW_PEER, samples[SLOW_PEER])
    return [*found, Row(f"put to DAG run queued: {what}", "s", Figure.of(ours), beside, figure)]


def _row(samples: Samples, name: str, other: str, target: Target | None) -> Row:
    """Of the rounds in which both started a run."""
    ours, theirs = samples[name], samples[other]
    if not there(ours):
        raise RuntimeError(f"{SHOWN[name]}: none of {len(ours)} messages started a run in time")
    what, beside = f"put to DAG run queued: {_said(name, ours)}", _said(other, theirs)
    return paired(what, "s", ours, beside, theirs, target)


def _said(name: str, series: Series) -> str:
    lost = len(series) - len(there(series))
    return f"{SHOWN[name]}, {lost} of {len(series)} not in time" if lost else SHOWN[name]
