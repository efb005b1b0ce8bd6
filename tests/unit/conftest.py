"""The emulator, on a real socket, for every unit test that wants a service to talk to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.server import EmulatorServer


@pytest.fixture(scope="session")
def emulator_server() -> Iterator[EmulatorServer]:
    """One server for the session; tests take ``emulator``, which is as new for each."""
    with EmulatorServer(clock=ManualClock()) as server:
        yield server


@pytest.fixture
def emulator(emulator_server: EmulatorServer) -> Iterator[EmulatorServer]:
    """A workflow service without inboxes, tokens or faults, whose clock stands still."""
    emulator_server.reset()
    yield emulator_server
    emulator_server.reset()


@pytest.fixture
def clock(emulator: EmulatorServer) -> ManualClock:
    """The clock of ``emulator``; it moves when a test says ``clock.advance(seconds)``."""
    assert isinstance(emulator.store.clock, ManualClock)
    return emulator.store.clock
