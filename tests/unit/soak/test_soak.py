"""What a soak says of figures that grow, and of a listener that leaks."""

from __future__ import annotations

import asyncio
import os

import psutil
import pytest

from airflow_provider_workflow.client import event_stream, over_aiohttp
from airflow_provider_workflow.client.over_aiohttp import AsyncWorkflowClient
from airflow_provider_workflow.client.tokens import TokenCache
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.soak import probe
from tests.soak.report import GROWS, STANDS_STILL, STEADY, TOO_MANY, judged
from tests.soak.sampling import OPEN_FILES, THREADS, TO_SERVICE, Sampler
from tests.unit.client.conftest import settings_of

HALF_HOUR = [float(second) for second in range(360, 1800, 10)]
"""When samples are taken in a soak of half an hour."""


def verdict(what: str, values: list[float], times: list[float] = HALF_HOUR) -> str:
    (row,) = judged({("triggerer: runs the triggers", what): {1: list(zip(times, values, strict=True))}})
    assert row.holds == (row.verdict not in (GROWS, TOO_MANY, STANDS_STILL))
    return row.verdict


@pytest.mark.parametrize("period", [1, 3])
def test_what_stays_the_same_or_comes_and_goes_is_steady(period):
    assert verdict(TO_SERVICE, [12.0 + number % period for number in range(len(HALF_HOUR))]) == STEADY


@pytest.mark.parametrize(
    ("what", "seconds"),
    # The threads that are allowed are as many as the machine's cores ask for, 32 at most.
    [(THREADS, 10), (TO_SERVICE, 10), (TO_SERVICE, 150), (OPEN_FILES, 150)],
)
def test_one_more_every_so_many_seconds_is_found_out_in_half_an_hour(what, seconds):
    assert verdict(what, [at // seconds for at in HALF_HOUR]) in (GROWS, TOO_MANY)


STREAMS = 10


async def test_a_listener_that_comes_and_goes_leaves_nothing_open(emulator: EmulatorServer) -> None:
    inbox_id, settings, tokens = emulator.open_inbox("orders"), settings_of(emulator), TokenCache()
    sampler, process = Sampler(emulator.port), psutil.Process(os.getpid())
    for cycle in range(12):
        async with over_aiohttp.shared_session(settings.tls(), STREAMS) as session:
            client = AsyncWorkflowClient(settings, session, tokens=tokens)
            async with event_stream.listen(client, inbox_id, STREAMS) as bell:
                assert await asyncio.wait_for(bell.wait(), 10)
                sampler.take(float(cycle), {"this": [process]})
                sampler.note(float(cycle), "this", probe.counted())

    said = {row.key[1]: row.verdict for row in judged(sampler.series)}
    watched = (TO_SERVICE, OPEN_FILES, "sessions", "asyncio tasks")
    assert {what: said[what] for what in watched} == dict.fromkeys(watched, STEADY)
