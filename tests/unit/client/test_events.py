"""The event stream: events, reconnections, what several triggers share, and cancellations."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from airflow_provider_workflow.client import aiohttp_transport, event_stream
from airflow_provider_workflow.client.aiohttp_transport import shared_session
from airflow_provider_workflow.client.async_client import AsyncWorkflowClient, carry_through
from airflow_provider_workflow.client.errors import TransportError
from airflow_provider_workflow.client.event_stream import listen
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.tokens import TokenCache
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.client.calls import SOME_ID
from tests.unit.client.scripted_server import ScriptedServer
from tests.unit.fake_clock import FakeClock

LONG = 10.0
"""Seconds that a test gives to what should come at once."""
STREAMS = 10
"""Event streams that may be open at once."""


@pytest.fixture
async def client(settings: Settings, fake_clock: FakeClock) -> AsyncIterator[AsyncWorkflowClient]:
    async with shared_session(settings.tls(), STREAMS) as session:
        yield AsyncWorkflowClient(settings, session, tokens=TokenCache())
    assert session.closed


@pytest.fixture
def inbox(emulator: EmulatorServer) -> str:
    return emulator.open_inbox("orders")


@pytest.fixture(autouse=True)
async def nothing_leaks() -> AsyncIterator[None]:
    yield
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def is_woken_up(listener: asyncio.Event | None) -> bool:
    assert listener is not None
    await asyncio.wait_for(listener.wait(), LONG)
    listener.clear()
    return True


async def silent(listener: asyncio.Event | None) -> bool:
    """Whether the listener is not woken up within a moment."""
    await asyncio.sleep(0.05)
    return listener is not None and not listener.is_set()


async def until(condition: Callable[[], bool]) -> None:
    async def watch() -> None:
        while not condition():  # noqa: ASYNC110 what it watches is in another thread
            await asyncio.sleep(0.005)

    await asyncio.wait_for(watch(), LONG)


async def test_a_listener_is_woken_up_once_connected_and_by_each_event(
    client: AsyncWorkflowClient, inbox: str, emulator: EmulatorServer
) -> None:
    async with listen(client, inbox, STREAMS) as listener:
        assert await is_woken_up(listener)
        assert await silent(listener)
        emulator.put("orders", {})
        assert await is_woken_up(listener)


async def test_listeners_of_one_inbox_share_a_stream_that_outlives_the_one_who_opened_it(
    client: AsyncWorkflowClient, inbox: str, emulator: EmulatorServer
) -> None:
    async with AsyncExitStack() as later:
        async with listen(client, inbox, streams=1) as first:
            assert await is_woken_up(first)
            second, third = [
                await later.enter_async_context(listen(client, inbox, streams=1)) for _ in range(2)
            ]
            emulator.put("orders", {})
            for listener in (first, second, third):
                assert await is_woken_up(listener)
        emulator.put("orders", {})
        for listener in (second, third):
            assert await is_woken_up(listener)
        assert emulator.count("events") == 1


async def test_no_stream_outlives_the_session_on_which_it_was_opened(
    settings: Settings, inbox: str, emulator: EmulatorServer, fake_clock: FakeClock
) -> None:
    """Equal settings may mean two sessions: a file of certificates can change meanwhile."""
    tokens, tls = TokenCache(), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    async with AsyncExitStack() as later:
        other = await later.enter_async_context(shared_session(tls, STREAMS))
        async with shared_session(None, STREAMS) as session:
            clients = [AsyncWorkflowClient(settings, of, tokens=tokens) for of in (session, other)]
            async with listen(clients[0], inbox, STREAMS) as first:
                assert await is_woken_up(first)
                listener = await later.enter_async_context(listen(clients[1], inbox, STREAMS))
        assert session.closed
        assert await is_woken_up(listener)
        emulator.put("orders", {})
        assert await is_woken_up(listener)


async def test_an_inbox_beyond_the_limit_is_not_listened_to(
    client: AsyncWorkflowClient, inbox: str, emulator: EmulatorServer
) -> None:
    other = emulator.open_inbox("other")
    async with listen(client, inbox, streams=1) as listener:
        async with listen(client, other, streams=1) as beyond:
            assert await is_woken_up(listener)
            assert beyond is None
        assert emulator.count("events") == 1
    async with listen(client, other, streams=1) as listener:
        assert await is_woken_up(listener)


async def test_the_pauses_before_a_stream_is_opened_again_grow_until_an_event(
    client: AsyncWorkflowClient, inbox: str, emulator: EmulatorServer, fake_clock: FakeClock
) -> None:
    async with listen(client, inbox, STREAMS) as listener:
        for number in range(8):
            assert await is_woken_up(listener)
            await until(lambda: bool(emulator.emulator.streams.open))
            if number == 6:
                emulator.put("orders", {})
                assert await is_woken_up(listener)
            emulator.emulator.streams.close()
        assert await is_woken_up(listener)
    pauses = (0.5, 1.0, 2.0, 5.0, 5.0, 5.0, 0.5, 1.0)
    assert all(pause <= nap <= 1.25 * pause for nap, pause in zip(fake_clock.slept, pauses, strict=False))


async def test_a_stream_that_is_rejected_costs_no_tokens(
    client: AsyncWorkflowClient, inbox: str, emulator: EmulatorServer, fake_clock: FakeClock
) -> None:
    """Calls renew a token that was revoked; a service may reject streams and accept calls."""
    emulator.fault("status", "events", status=401, code="expired", when="before", times=3)
    async with listen(client, inbox, STREAMS) as listener:
        assert await is_woken_up(listener)
    assert emulator.count("token") == 1
    assert all(300 <= nap <= 375 for nap in fake_clock.slept[:3])


async def test_a_fault_of_our_own_ends_no_stream_and_is_said_once(
    client: AsyncWorkflowClient, inbox: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    original, times = client.build, iter(range(5))

    def breaks(*arguments: Any) -> Any:
        if next(times, None) is not None:
            raise KeyError("a fault")
        return original(*arguments)

    monkeypatch.setattr(client, "build", breaks)
    async with listen(client, inbox, STREAMS) as listener:
        assert await is_woken_up(listener)
    assert caplog.text.count("broke: KeyError") == 1


async def test_a_stream_whose_head_does_not_end_is_limited_like_a_request(
    scripted_server: ScriptedServer, fake_clock: FakeClock
) -> None:
    began, over = threading.Event(), threading.Event()

    def play(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX: a")
        began.set()
        over.wait(LONG)

    scripted_server.answers = [play]
    settings = scripted_server.settings()
    async with shared_session(settings.tls(), STREAMS) as session:
        events = event_stream.events_of(AsyncWorkflowClient(settings, session, tokens=TokenCache()), SOME_ID)
        opening = asyncio.ensure_future(anext(events))
        await until(began.is_set)
        fake_clock.advance(settings.timeout + 1)
        await asyncio.wait({opening}, timeout=LONG / 10)
        over.set()
        with pytest.raises(TransportError, match="no complete answer"):
            await opening


async def test_100_events_in_each_second_are_accepted_and_no_more(
    client: AsyncWorkflowClient,
    inbox: str,
    fake_clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    chunks = [b"data: {}\n\n" * 100, b"da", b"ta: {}\n\n" + b"data: {}\n\n" * 99, b"data: {}\n\n" * 101]
    sound = aiohttp_transport.next_chunk

    async def next_chunk(response: Any) -> bytes:
        if response.content_type != "text/event-stream":
            return await sound(response)
        fake_clock.advance(1)
        return chunks.pop(0)

    monkeypatch.setattr(aiohttp_transport, "next_chunk", next_chunk)
    async with listen(client, inbox, STREAMS):
        await until(lambda: "closed for 300 s" in caplog.text)
    assert chunks == []
    assert 300 <= fake_clock.slept[0] <= 375


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def cancelled_again_and_again(task: asyncio.Task[Any]) -> None:
    for _ in range(3):
        task.cancel()
        await turns()


async def ends_cancelled(task: asyncio.Task[Any]) -> None:
    await asyncio.wait({task}, timeout=LONG)
    assert task.done()
    assert task.cancelled()


@pytest.mark.parametrize("fault", [None, ValueError("at its end")])
async def test_what_is_carried_through_ends_before_the_cancelled_one_does(fault: Exception | None) -> None:
    answer_event, did = asyncio.Event(), []

    async def renew() -> str:
        await answer_event.wait()
        did.append("renewed")
        if fault is not None:
            raise fault
        return "token"

    task = asyncio.ensure_future(carry_through(renew()))
    await turns()
    await cancelled_again_and_again(task)
    assert not task.done()

    answer_event.set()
    await ends_cancelled(task)
    assert did == ["renewed"]


async def test_a_stream_that_misses_a_cancellation_ends_at_the_next(
    client: AsyncWorkflowClient, inbox: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = asyncio.Event()

    async def events_of(*_: object) -> AsyncIterator[None]:
        try:
            began.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.Event().wait()
        yield None

    async def listens() -> None:
        async with listen(client, inbox, STREAMS) as listener:
            await is_woken_up(listener)

    monkeypatch.setattr(event_stream, "events_of", events_of)
    task = asyncio.ensure_future(listens())
    await began.wait()
    await cancelled_again_and_again(task)
    await ends_cancelled(task)
