"""What is made of the moments between a message and its DAG run, and the floor's trigger."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from airflow_provider_workflow.emulator.web.context import LoggedRequest
from benchmarks.fifo import tell
from benchmarks.scale.latency import FLOOR, NOTICE, SHOWN, rows
from benchmarks.scale.steps import IN_OPERATOR, OWN, STEPS, Moments, Taken, taken
from benchmarks.scale.timed import PipeTrigger

MOMENTS = Moments(10.0, (10.5, 11, 11.25, 11.5, 12, 13, 13.5, 15), loaded_at=14.0)


class Request:
    """What is read of a logged request."""

    def __init__(self, operation: str, at: float) -> None:
        self.operation, self.at = operation, at


def requests(*given: tuple[str, float]) -> Sequence[LoggedRequest]:
    return cast(Sequence[LoggedRequest], [Request(*each) for each in given])


def test_each_step_begins_where_the_one_before_ended() -> None:
    of_floor = taken(MOMENTS, [])
    assert of_floor.steps == (0.5, 0.5, 0.25, 0.25, 0.5, 1, 0.5, 1.5)
    assert len(of_floor.steps) == len(STEPS)
    assert of_floor.total == 5
    assert of_floor.own == 2.5
    assert of_floor.in_operator == ()


def test_the_last_step_is_divided_by_the_requests_of_the_operator() -> None:
    log = requests(("list_messages", 10.2), ("token", 14.25), ("lease", 14.5), ("lease", 14.9), ("ack", 15.1))
    of_ours = taken(MOMENTS, log)
    assert of_ours.in_operator == (0.5, 0.25, 0.25, 0.5)
    assert len(of_ours.in_operator) == len(IN_OPERATOR)
    assert sum(of_ours.in_operator) == of_ours.steps[-1]


def test_our_total_stands_beside_that_of_the_floor_round_by_round() -> None:
    ours = [Taken((1.0,) * 8, (0.25,) * 4), Taken((2.0,) * 8, (0.5,) * 4)]
    found = rows({NOTICE: ours, FLOOR: [Taken((1.0,) * 8), Taken((1.0,) * 8)]})
    total = found[0]
    assert (total.ours.median, total.ratio and total.ratio.median, total.met) == (12, 1.5, False)
    assert found[1].ours.median == 8
    assert (found[2].ours.median, found[2].theirs and found[2].theirs.median) == (1.5 * len(OWN), len(OWN))
    steps = [row for row in found if row.what.endswith(STEPS)]
    assert [row.ours.median for row in steps] == [1.5, 1.0] * len(STEPS)
    assert {row.point.x for row in steps if row.point} == set(SHOWN.values())
    assert [row.ours.median for row in found[-len(IN_OPERATOR) :]] == [0.375] * 4


async def test_the_trigger_of_the_floor_emits_an_event_each_time(tmp_path: Path) -> None:
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    name, arguments = PipeTrigger(path).serialize()
    assert name == "benchmarks.scale.timed.PipeTrigger"
    events = PipeTrigger(**arguments).run()
    for _ in range(2):
        emitted = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)  # it opens the pipe
        assert not emitted.done()
        tell(path)
        assert (await emitted).payload["at"] > 0
    await events.aclose()  # type: ignore[attr-defined]
    with pytest.raises(OSError, match="No such device"):
        tell(path)
