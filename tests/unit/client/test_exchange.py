"""How a task runs the coroutines of its client, without an event loop."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.call import Send
from airflow_provider_workflow.client.sync_client import WorkflowClient
from tests.unit.client.endpoint import SETTINGS
from tests.unit.client.scripted_server import ScriptedServer, answer

LONG = 10.0
"""Seconds that a test gives to what should come at once."""
PAGE = {"results": [], "next": None}


class KillError(BaseException):
    """What a signal raises in a task that is being ended."""


@pytest.fixture
def signal_of_an_end() -> Iterator[signal.Signals]:
    """A signal that raises ``KillError`` wherever the main thread is."""

    def end(*_: Any) -> None:
        raise KillError

    before = signal.signal(signal.SIGUSR1, end)
    yield signal.SIGUSR1
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize(
    "beginning", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"], ids=["head", "body"]
)
def test_a_task_that_is_ended_while_it_waits_closes_its_connection_and_can_use_its_client(
    scripted_server: ScriptedServer, signal_of_an_end: signal.Signals, beginning: bytes
) -> None:
    chunks: list[bytes] = []
    is_over = threading.Event()

    def play(connection: socket.socket) -> None:
        connection.sendall(beginning)
        connection.settimeout(LONG)
        signal.pthread_kill(threading.main_thread().ident or 0, signal_of_an_end)
        with suppress(ConnectionResetError):  # it closes before it has received all
            chunks.append(connection.recv(1))
        is_over.set()

    scripted_server.script(play)
    with WorkflowClient(scripted_server.settings()) as client:
        with pytest.raises(KillError) as error_info:
            client.send(api.list_inboxes())
        assert is_over.wait(LONG)
        assert b"".join(chunks) == b"", "the client has closed the connection"
        scripted_server.script(answer(200, PAGE))
        assert client.send(api.list_inboxes()) == PAGE
    assert error_info.traceback  # whose frames hold the answer and the coroutine


def test_a_coroutine_that_needs_an_event_loop_is_an_error_and_is_closed() -> None:
    is_closed = []

    async def waits(send: Send) -> None:
        try:
            await asyncio.sleep(0)
        finally:
            is_closed.append(True)

    with pytest.raises(RuntimeError, match="waits for an event loop") as error_info:
        WorkflowClient(SETTINGS).run(waits)
    assert is_closed == [True]
    assert error_info.traceback  # whose frames hold the coroutine
