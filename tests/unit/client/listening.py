"""Listening to the emulator: clients, sleeps that end at once, and a check that nothing is left over."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from airflow_provider_workflow.client.client import AsyncWorkflowClient
from airflow_provider_workflow.client.event_stream import WakeUps
from airflow_provider_workflow.client.over_aiohttp import shared_session
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.tokens import TokenCache
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.fake_clock import FakeClock

LONG = 10.0
"""Seconds that a test gives to what should come at once."""
A_DAY = 86400.0
"""Seconds that do not pass by the clock of a test."""
STREAMS = 10
"""Event streams that may be open at once."""


class Naps:
    """Sleeps that end at once, but for those of the patient, which end when they are cancelled."""

    def __init__(self, fake_clock: FakeClock) -> None:
        self.taken = fake_clock.slept
        self.long = asyncio.Event()
        fake_clock.meanwhile = self._meanwhile

    async def _meanwhile(self, seconds: float) -> None:
        if seconds >= 60:
            self.long.set()
            await asyncio.Event().wait()


@pytest.fixture
def naps(fake_clock: FakeClock) -> Naps:
    return Naps(fake_clock)


NewClient = Callable[..., Any]


@pytest.fixture
def new_client(settings: Settings, naps: Naps) -> Iterator[NewClient]:
    """Clients as a hook makes them: each enters the session of the loop."""
    tokens, sessions = TokenCache(), []

    @contextlib.asynccontextmanager
    async def new(of: Settings = settings) -> AsyncIterator[AsyncWorkflowClient]:
        async with shared_session(of.certificates(), STREAMS) as session:
            sessions.append(session)
            yield AsyncWorkflowClient(of, session, tokens=tokens)

    yield new
    assert all(session.closed for session in sessions)


@pytest.fixture
async def client(new_client: NewClient) -> AsyncIterator[AsyncWorkflowClient]:
    async with new_client() as made:
        yield made


@pytest.fixture
def inbox(emulator: EmulatorServer) -> str:
    return emulator.open_inbox("orders")


@pytest.fixture(autouse=True)
async def nothing_leaks() -> AsyncIterator[None]:
    yield
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def is_woken_up(listener: WakeUps) -> bool:
    """Whether the listener is_woken_up, in the time of this machine."""
    return await asyncio.wait_for(listener.wait(A_DAY), LONG)


async def silent(listener: WakeUps) -> bool:
    """Whether the listener is not woken up within a moment."""
    await asyncio.sleep(0.05)
    return not await listener.wait(0)


async def until(condition: Callable[[], bool]) -> None:
    async def watch() -> None:
        while not condition():  # noqa: ASYNC110 what it watches is in another thread
            await asyncio.sleep(0.005)

    await asyncio.wait_for(watch(), LONG)
