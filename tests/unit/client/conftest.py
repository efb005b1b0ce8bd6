"""Fixtures for tests of the client: isolation, settings, and both senders."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any
from zlib import crc32

import pytest

from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.tokens import TokenCache
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.client.isolation import isolated
from tests.unit.client.matrix.cells import Service
from tests.unit.client.scripted_server import ScriptedServer
from tests.unit.client.senders import SENDERS, Sender
from tests.unit.fake_clock import FakeClock

__all__ = ["isolated"]

MakeSender = Callable[..., Sender]


def settings_of(emulator: EmulatorServer, **extra: Any) -> Settings:
    fields = emulator.connection()
    return Settings.build(
        host=fields["host"],
        login=fields["login"],
        password=fields["password"],
        # Loading the CA certificates takes longer than most tests.
        extra={**fields["extra"], "verify": False, **extra},
    )


@pytest.fixture
def cache(fake_clock: FakeClock) -> TokenCache:
    return TokenCache()


@pytest.fixture
def settings(emulator: EmulatorServer) -> Settings:
    """A connection to the emulator."""
    return settings_of(emulator)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests of what each transport implements by itself once per kind of sender."""
    of_transports = {"test_transport", "test_tls", "test_answers", "test_error_answers"}
    if metafunc.module.__name__.rpartition(".")[2] in of_transports and "make_send" in metafunc.fixturenames:
        metafunc.parametrize("make_send", SENDERS, indirect=True)


@pytest.fixture
def make_send(request: pytest.FixtureRequest) -> Iterator[MakeSender]:
    """
    Makes senders of one kind.

    What both have in common is tested with either: the cases of a test take the kinds in turns.
    """
    name = (
        getattr(request, "param", None) or list(SENDERS)[crc32(request.node.nodeid.encode()) % len(SENDERS)]
    )
    with ExitStack() as stack:

        def make(settings: Settings, **options: Any) -> Sender:
            return stack.enter_context(closing(SENDERS[name](settings, **options)))

        yield make


@pytest.fixture
def send(make_send: MakeSender, settings: Settings) -> Sender:
    """A sender to the emulator."""
    return make_send(settings)


@pytest.fixture
def scripted_server() -> Iterator[ScriptedServer]:
    """A server that answers with what the test says, byte for byte."""
    with ScriptedServer() as server:
        yield server


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """A server of the matrix, whose cells use it one after the other."""
    with Service() as server:
        yield server


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port on which nobody listens, and nobody else can meanwhile."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        yield listener.getsockname()[1]
