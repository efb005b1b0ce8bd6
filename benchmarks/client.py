"""
What our client costs: time and CPU per call, beside bare sessions of the same libraries that send the same
requests to the same service, in a process of its own, and decode the same answers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.settings import Settings
from benchmarks.results import Row, Target, compared
from benchmarks.senders import Asked, Senders, senders
from benchmarks.service import Service, service

ROUNDS = 30
QUICK_ROUNDS = 3
CALLS = 100
"""In each batch; a batch is one sample."""
AT_ONCE = 20
MESSAGES = 100
INBOXES = "/trigger-inbox/v1/inboxes"

Batch = Callable[[], Awaitable[None]]
"""Makes ``CALLS`` calls."""


@dataclass(frozen=True)
class Pair:
    """Two ways to make the same calls."""

    what: str
    ours: Batch
    beside: str
    bare: Batch


def run(quick: bool) -> list[Row]:
    """Measure; ``quick`` with few repeats."""
    return asyncio.run(_measure(QUICK_ROUNDS if quick else ROUNDS))


async def _measure(rounds: int) -> list[Row]:
    with service() as emulator:
        async with senders(_settings(emulator), emulator.token()) as four:
            return [
                row
                for asked in _requests(emulator)
                for pair in _pairs(asked, four)
                for row in await _rows(pair, rounds)
            ]


def _settings(emulator: Service) -> Settings:
    given = emulator.connection
    return Settings.build(
        host=given["host"], login=given["login"], password=given["password"], extra=given["extra"]
    )


def _requests(emulator: Service) -> list[Asked]:
    empty, full = emulator.open_inbox("empty"), emulator.open_inbox("full", MESSAGES)
    at = emulator.base_url + INBOXES
    return [
        Asked(
            "lease of nothing",
            lambda: api.lease_messages(empty, lease_limit=100, lease_seconds=300),
            "POST",
            f"{at}/{empty}/messages/lease",
            body={"lease_seconds": 300, "lease_limit": 100},
        ),
        Asked(
            f"page of {MESSAGES} messages",
            lambda: api.list_messages(full, limit=MESSAGES),
            "GET",
            f"{at}/{full}/messages",
            query={"limit": MESSAGES},
        ),
    ]


def _pairs(asked: Asked, four: Senders) -> list[Pair]:
    what = asked.what
    ours, bare = partial(_one_by_one, four.ours_async, asked), partial(_one_by_one, four.bare_async, asked)
    return [
        Pair(
            what,
            partial(_in_a_task, four.ours, asked),
            "bare requests",
            partial(_in_a_task, four.bare, asked),
        ),
        Pair(what, partial(ours, CALLS), "bare aiohttp", partial(bare, CALLS)),
        Pair(f"{what}, {AT_ONCE} at once", partial(_at_once, ours), "bare aiohttp", partial(_at_once, bare)),
    ]


async def _in_a_task(send: Callable[[Asked], Any], asked: Asked) -> None:
    for _ in range(CALLS):
        send(asked)


async def _one_by_one(send: Callable[[Asked], Awaitable[Any]], asked: Asked, calls: int) -> None:
    for _ in range(calls):
        await send(asked)


async def _at_once(some: Callable[[int], Awaitable[None]]) -> None:
    await asyncio.gather(*(some(CALLS // AT_ONCE) for _ in range(AT_ONCE)))


async def _rows(pair: Pair, rounds: int) -> list[Row]:
    """Both take turns; who began a round comes second in the next. The first round opens connections."""
    samples: dict[Batch, list[tuple[float, float]]] = {pair.ours: [], pair.bare: []}
    for number in range(rounds + 1):
        for batch in (pair.ours, pair.bare) if number % 2 else (pair.bare, pair.ours):
            taken = await _sample(batch)
            if number:
                samples[batch].append(taken)
    (rates, used), (bare_rates, bare_used) = (
        tuple(zip(*samples[batch], strict=True)) for batch in (pair.ours, pair.bare)
    )
    return [
        compared(f"{pair.what}: calls", "1/s", rates, pair.beside, bare_rates, Target("ratio", ">=", 0.8)),
        compared(f"{pair.what}: CPU", "ms", used, pair.beside, bare_used, Target("ratio", "<=", 1.25)),
    ]


async def _sample(batch: Batch) -> tuple[float, float]:
    """Calls per second, and milliseconds of CPU per call."""
    started, used = time.perf_counter(), time.process_time()
    await batch()
    used, taken = time.process_time() - used, time.perf_counter() - started
    return CALLS / taken, used / CALLS * 1000
