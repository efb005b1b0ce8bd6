"""The event stream among all these faults: it never wakes a listener up, and how long it is left alone."""

from __future__ import annotations

import asyncio
import gzip
import logging
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from airflow_provider_workflow.client.aiohttp_transport import shared_session
from airflow_provider_workflow.client.async_client import AsyncWorkflowClient
from airflow_provider_workflow.client.event_stream import listen
from airflow_provider_workflow.client.tokens import AccessToken, TokenCache, token_key
from airflow_provider_workflow.clock import use
from tests.unit.client.calls import SOME_ID
from tests.unit.client.matrix.cells import check
from tests.unit.client.matrix.test_broken import BROKEN, LINES
from tests.unit.client.matrix.test_elsewhere import elsewhere, locations
from tests.unit.client.matrix.test_statuses import SHAPES, STATUSES
from tests.unit.client.scripted_server import Script, ScriptedServer, answer
from tests.unit.fake_clock import FakeClock

__all__ = ["elsewhere"]

LONG = 10.0
SHORTLY, FIVE_MINUTES = 0.5, 300.0
SPREAD = 1.25
"""Pauses are as much as a quarter longer, so that not all listeners come back at once."""


@dataclass(frozen=True)
class StreamOutcome:
    """What a listener saw of a stream until it was first left alone, for ``pause`` seconds."""

    port: int
    rang: bool
    pause: float
    sent: int
    text: str

    def complaint(self, pause: float, says: str, requests: int = 1) -> str:
        complaints = {
            "it rang": self.rang,
            f"left alone for {self.pause} s and not {pause}": not pause <= self.pause <= pause * SPREAD,
            f"{self.sent} requests, and not {requests}": self.sent != requests,
            f"{says!r} is not in {self.text!r}": says not in self.text,
        }
        return "; ".join(text for text, is_so in complaints.items() if is_so)


Hear = Callable[..., Awaitable[StreamOutcome]]


@pytest.fixture
def hear(caplog: pytest.LogCaptureFixture) -> Hear:
    """
    Listens to a stream of a service of its own until it is first left alone.

    With the answer of the token endpoint it has no token before.
    """

    async def once(script: Script, token: Script | None = None) -> StreamOutcome:
        caplog.clear()
        caplog.set_level(logging.DEBUG, "airflow_provider_workflow.client.event_stream")
        future: asyncio.Future[float] = asyncio.get_running_loop().create_future()

        async def meanwhile(seconds: float) -> None:
            future.set_result(seconds)
            await asyncio.Event().wait()

        tokens, fake = TokenCache(), FakeClock()
        fake.meanwhile = meanwhile
        with use(fake), ScriptedServer() as service:
            service.script(script, token=token)
            settings = service.settings()
            warm = AccessToken("warm-token", fake.monotonic() + 3000, fake.monotonic() + 3600)
            if token is None:
                tokens.put(token_key(settings, settings.scope), warm)
            async with shared_session(settings.tls(), 10) as session:
                client = AsyncWorkflowClient(settings, session, tokens=tokens)
                async with listen(client, f"{SOME_ID}\n", streams=1) as bell:
                    pause = await asyncio.wait_for(future, LONG)
                    rang = bell is not None and bell.is_set()
            assert f"{SOME_ID}\n" not in caplog.text
            return StreamOutcome(service.port, rang, pause, len(service.requests), caplog.text)

    return once


async def test_a_status_of_the_service_leaves_the_stream_alone_for_as_long_as_it_deserves(hear: Hear) -> None:
    complaints = {}
    for status in STATUSES:
        for title, shape in SHAPES.items():
            outcome = await hear(shape.answer(status))
            soon = status == 429 or status >= 500
            pause = SHORTLY if soon else FIVE_MINUTES
            says = f"The request for the event stream was answered with {status}"
            complaints[f"{status}, {title}"] = outcome.complaint(pause, says)
    check(complaints)


@pytest.mark.parametrize("status", [429, 503])
async def test_the_time_that_a_busy_service_asks_for_is_given_to_it(status: int, hear: Hear) -> None:
    says = f"The request for the event stream was answered with {status}"
    for seconds, pause in (("30", 30), ("0", SHORTLY)):
        outcome = await hear(answer(status, b"", {"Retry-After": seconds}))
        assert not outcome.complaint(pause, says)


async def test_a_line_that_breaks_is_tried_again_soon(hear: Hear) -> None:
    complaints = {}
    for title in (*BROKEN, "no HTTP at all", "a header without an end", "a thousand headers"):
        outcome = await hear(LINES[title])
        says = f"the connection to 127.0.0.1:{outcome.port} was lost"
        complaints[title] = outcome.complaint(SHORTLY, says, 2 if title in BROKEN else 1)
    check(complaints)


NO_STREAM = {
    "JSON": answer(200, {"id": SOME_ID}),
    "a page": answer(200, b"<html>", {"Content-Type": "text/html"}),
    "no type": answer(200, b"data: {}\n\n"),
    "a type that is none": answer(200, b"data: {}\n\n", {"Content-Type": ";;=/"}),
    "no content": answer(204, b""),
    "half a body": LINES["cut in a body of known length"],
    "half a chunk": LINES["cut in a body of chunks"],
    "no gzip": LINES["a body that is no gzip"],
    "a compressed stream": answer(
        200,
        gzip.compress(b"data: {}\n\n" * 1_000_000),
        {"Content-Type": "text/event-stream", "Content-Encoding": "gzip"},
    ),
}


async def test_what_is_no_event_stream_is_left_alone_for_five_minutes(hear: Hear) -> None:
    complaints = {}
    for title, script in NO_STREAM.items():
        outcome = await hear(script)
        complaints[title] = outcome.complaint(FIVE_MINUTES, "and no event stream")
    check(complaints)


async def test_no_redirect_is_followed(hear: Hear, elsewhere: ScriptedServer) -> None:
    complaints = {}
    for title, (location, says) in locations(elsewhere).items():
        head = b"HTTP/1.1 307 Any\r\nContent-Length: 0\r\nLocation: "
        outcome = await hear(head + location + b"\r\n\r\n")
        complaints[title] = outcome.complaint(FIVE_MINUTES, says)
    assert elsewhere.connections == 0
    check(complaints)


async def test_without_a_token_the_stream_is_not_requested(hear: Hear) -> None:
    complaints = {}
    for status in STATUSES:
        outcome = await hear(b"", token=answer(status))
        pause = SHORTLY if status == 429 or status >= 500 else FIVE_MINUTES
        says = f"The request for an access token was answered with {status}"
        complaints[str(status)] = outcome.complaint(pause, says, requests=0)
    check(complaints)


STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


@pytest.mark.parametrize("body", [b"", b"\x00" * 1000 + b"data: \xff\xfe\n\n", b"data: {}\n\n" * 100])
async def test_whatever_comes_on_a_stream_it_rings_when_it_is_connected(body: bytes, hear: Hear) -> None:
    outcome = await hear(lambda connection: connection.sendall(STREAM_HEAD + body))
    assert outcome.rang
    assert outcome.pause <= SHORTLY * SPREAD


async def test_a_stream_with_an_invalid_chunk_is_opened_again_soon(hear: Hear) -> None:
    def play(connection: socket.socket) -> None:
        connection.sendall(STREAM_HEAD.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n"))
        time.sleep(0.05)  # the chunk comes alone
        connection.sendall(b"zz\r\n")
        connection.recv(1)

    outcome = await hear(play)
    assert outcome.rang
    assert outcome.pause <= SHORTLY * SPREAD
    assert f"the connection to 127.0.0.1:{outcome.port} was lost" in outcome.text
