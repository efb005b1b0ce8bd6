from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import certifi
import pytest

from airflow_provider_workflow.client.over_aiohttp import shared_session
from airflow_provider_workflow.receiver.airflow_rest import AirflowRest
from airflow_provider_workflow.receiver.airflow_token import Credentials
from airflow_provider_workflow.receiver.doorbell import Doorbell
from tests.unit.fake_clock import FakeClock
from tests.unit.receiver.airflow import PASSWORD, USERNAME, FakeAirflow

Connect = Callable[..., AirflowRest]
Hang = Callable[..., Doorbell]
CREDENTIALS = Credentials(USERNAME, lambda: PASSWORD)


@dataclass
class Pause:
    """A pause that ends when a test says so."""

    seconds: float
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self) -> None:
        self.over.set()


class Pauses:
    """The pauses of doorbells, in the order in which they began."""

    def __init__(self, fake_clock: FakeClock) -> None:
        self._begun: asyncio.Queue[Pause] = asyncio.Queue()
        fake_clock.meanwhile = self._pause

    async def _pause(self, seconds: float) -> None:
        pause = Pause(seconds)
        self._begun.put_nowait(pause)
        await pause.over.wait()

    async def next(self) -> Pause:
        return await asyncio.wait_for(self._begun.get(), 10)


@pytest.fixture
async def airflow() -> AsyncIterator[FakeAirflow]:
    fake = FakeAirflow()
    await fake.server.start_server()
    yield fake
    fake.open.set()
    await fake.server.close()


@pytest.fixture
async def connect(airflow: FakeAirflow) -> AsyncIterator[Connect]:
    """The receiver's side of the fake Airflow."""
    async with shared_session(certifi.where(), streams=0) as session:

        def make(credentials: Credentials = CREDENTIALS) -> AirflowRest:
            return AirflowRest(airflow.url, credentials, session)

        yield make


@pytest.fixture
def pauses(fake_clock: FakeClock) -> Pauses:
    return Pauses(fake_clock)


@pytest.fixture
async def hang(connect: Connect, pauses: Pauses) -> AsyncIterator[Hang]:
    """Hang up a doorbell that is answered."""
    tasks: list[asyncio.Task[None]] = []

    def make(inbox: str = "orders", dag_id: str = "dispatch", airflow: AirflowRest | None = None) -> Doorbell:
        bell = Doorbell(inbox, dag_id, airflow or connect())
        tasks.append(asyncio.create_task(bell.run()))
        return bell

    yield make
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in ended)
