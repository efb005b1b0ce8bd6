"""The same cycles of a listener, with the code as it is and with what a soak exists to find."""

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
from tests.soak.growth import GROWS, STEADY, TOO_MANY
from tests.soak.report import judged, unclosed
from tests.soak.sampling import OPEN_FILES, TO_SERVICE, Sampler
from tests.unit.client.conftest import settings_of

CYCLES = 12
LONG = 10.0
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
    for cycle in range(CYCLES):
        async with over_aiohttp.shared_session(settings.certificates(), STREAMS) as session:
            client = AsyncWorkflowClient(settings, session, tokens=tokens)
            async with event_stream.listen(client, inbox_id, STREAMS) as bell:
                assert await bell.wait(LONG)
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
