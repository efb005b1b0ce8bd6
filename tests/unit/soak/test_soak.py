"""What a soak says of figures that grow, and of a listener that leaks."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import psutil
import pytest

from airflow_provider_workflow.client import event_stream, over_aiohttp
from airflow_provider_workflow.client.client import AsyncWorkflowClient
from airflow_provider_workflow.client.tokens import TokenCache
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.soak import leaky, probe
from tests.soak.report import (
    GOES_ON,
    GROWS,
    RULES,
    STANDS_STILL,
    STEADY,
    TOO_MANY,
    TOO_SHORT,
    judged,
    unclosed,
)
from tests.soak.sampling import OPEN_FILES, OWN, THREADS, TO_SERVICE, Sampler
from tests.unit.client.conftest import settings_of

HALF_HOUR = [float(second) for second in range(360, 1800, 10)]
"""When samples are taken in a soak of half an hour."""
SHORT = [float(second) for second in range(18, 90, 2)]


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


def test_more_than_there_may_ever_be_is_too_many():
    assert verdict("sessions", [3.0] * len(HALF_HOUR)) == TOO_MANY


def test_memory_is_judged_by_its_slope_and_not_at_all_where_the_time_was_short():
    per_hour = RULES[OWN].per_hour
    for share, expected in ((0.5, STEADY), (2.0, GROWS)):
        values = [100 + share * per_hour * at / 3600 for at in HALF_HOUR]
        assert verdict(OWN, values) == expected
    assert verdict(OWN, [100 + at for at in SHORT], SHORT) == TOO_SHORT


def test_renewals_that_do_not_happen_show_nothing():
    assert verdict("tokens issued", HALF_HOUR) == GOES_ON
    assert verdict("tokens issued", [7.0] * len(HALF_HOUR)) == STANDS_STILL


STREAMS = 10


@pytest.fixture
async def leaks(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    monkeypatch.setattr(over_aiohttp, "shared_session", leaky.shared_session)
    monkeypatch.setattr(event_stream, "listen", leaky.listen)
    yield
    await leaky.close()


async def verdicts(emulator: EmulatorServer) -> dict[str, str]:
    """What is said of a listener that comes and goes."""
    inbox_id, settings, tokens = emulator.open_inbox("orders"), settings_of(emulator), TokenCache()
    sampler, process = Sampler(emulator.port), psutil.Process(os.getpid())
    for cycle in range(12):
        async with over_aiohttp.shared_session(settings.tls(), STREAMS) as session:
            client = AsyncWorkflowClient(settings, session, tokens=tokens)
            async with event_stream.listen(client, inbox_id, STREAMS) as bell:
                assert await bell.wait(10.0)
                sampler.take(float(cycle), {"this": [process]})
                sampler.note(float(cycle), "this", probe.counted())
    return {row.key[1]: row.verdict for row in judged(sampler.series)}


async def test_a_listener_that_comes_and_goes_leaves_nothing_open(emulator):
    said = await verdicts(emulator)
    watched = (TO_SERVICE, OPEN_FILES, "sessions", "asyncio tasks")
    assert {what: said[what] for what in watched} == dict.fromkeys(watched, STEADY)


async def test_one_that_leaves_sessions_and_streams_open_is_found_out(emulator, leaks):
    said = await verdicts(emulator)
    assert said[OPEN_FILES] == said["asyncio tasks"] == GROWS
    # More than are allowed at most, where a stream happened to take one more.
    assert said[TO_SERVICE] in (GROWS, TOO_MANY)
    assert said["sessions"] == TOO_MANY


def test_complaints_of_the_logs_are_found(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "attempt=1.log").write_text("fine\nUnclosed client session\n")
    (tmp_path / "triggerer.log").write_text("Unclosed connector\nfine\n")
    assert sorted(unclosed(tmp_path)) == ["Unclosed client session", "Unclosed connector"]
