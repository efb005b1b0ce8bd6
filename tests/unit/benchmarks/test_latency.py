"""Whose turn it is, what is made of the samples, and the parts that need no Airflow."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from benchmarks.contenders import FLOOR, OURS, PEER, SHOWN, SLOW_PEER
from benchmarks.fifo import FifoTrigger, tell
from benchmarks.latency import rows
from benchmarks.results import Series
from benchmarks.sqs import POLL, POLLS, Counting
from benchmarks.turns import gave_up, rotated

EVERY = (*OURS, FLOOR, PEER)


def test_each_contender_is_first_in_some_round_and_has_one_turn_in_each() -> None:
    orders = [rotated(EVERY, number) for number in range(len(EVERY))]  # type: ignore[type-var]
    assert {order[0] for order in orders} == set(EVERY)
    assert all(sorted(order) == sorted(EVERY) for order in orders)


@pytest.mark.parametrize(
    ("series", "given_up"),
    [
        ([], False),
        ([1.0, None, None], False),
        ([1.0, None, None, None], True),
        ([None, None, None, 1.0], False),
    ],
)
def test_a_contender_has_no_more_turns_after_three_in_a_row_that_started_nothing(
    series: Series, given_up: bool
) -> None:
    assert gave_up(series) is given_up


def test_ours_stand_beside_the_floor_and_beside_the_peer_with_targets_for_event_streams() -> None:
    samples = {name: [2.0, 2.0] for name in OURS} | {FLOOR: [2.0, 2.0], PEER: [4.0, 4.0], SLOW_PEER: [30.0]}
    found = rows(samples)
    assert len(found) == 2 * len(OURS) + 1
    assert [row.met for row in found if SHOWN["sensor_off"] in row.what] == [None, None]
    assert [row.met for row in found if SHOWN["notice"] in row.what] == [True, True]
    assert (found[-1].beside, found[-1].ratio) == (SHOWN[SLOW_PEER], None)


def test_what_a_peer_did_not_start_in_time_is_said_and_the_rest_is_compared() -> None:
    samples = {name: [2.0, 3.0] for name in OURS} | {FLOOR: [2.0, 2.0], PEER: [None, 6.0], SLOW_PEER: [None]}
    beside_peer = next(row for row in rows(samples) if row.beside.startswith(SHOWN[PEER]))
    assert beside_peer.beside.endswith("1 of 2 not in time")
    assert beside_peer.ratio is not None
    assert (beside_peer.ratio.median, beside_peer.ratio.n) == (0.5, 1)
    assert rows(samples)[-1].theirs is None


def test_one_of_ours_that_starts_nothing_is_an_error() -> None:
    samples = {name: [2.0] for name in OURS} | {FLOOR: [2.0], PEER: [4.0], SLOW_PEER: [30.0]}
    with pytest.raises(RuntimeError, match="notice recipe: none of 1 messages"):
        rows({**samples, "notice": [None]})


async def test_the_floor_fires_when_it_is_told_and_not_before(tmp_path: Path) -> None:
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    name, arguments = FifoTrigger(path).serialize()
    assert name == "benchmarks.fifo.FifoTrigger"

    fired = asyncio.ensure_future(anext(FifoTrigger(**arguments).run()))
    await asyncio.sleep(0)  # it opens the pipe
    assert not fired.done()
    tell(path)
    assert (await fired).payload == {}


def test_there_is_nobody_to_tell_at_a_pipe_without_a_trigger(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="No such device"):
        tell(str(tmp_path / "pipe"))


def test_only_polls_are_counted() -> None:
    answered: list[str] = []

    def application(environ: dict[str, str], start_response: object) -> list[bytes]:
        answered.append(environ["PATH_INFO"])
        return [b"answer"]

    counting = Counting(application)
    for target in (POLL, "AmazonSQS.SendMessage", POLL):
        assert counting({"PATH_INFO": "/", "HTTP_X_AMZ_TARGET": target}, print) == [b"answer"]
    assert counting({"PATH_INFO": POLLS}, lambda *_: None) == [b"2"]
    assert answered == ["/", "/", "/"]
