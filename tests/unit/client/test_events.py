"""The event stream: rings on connecting and on notices, shared, limited, closed by the last who leaves."""

from __future__ import annotations

import asyncio
import contextlib

import certifi
import pytest

from airflow_provider_workflow.client.client import AsyncWorkflowClient
from airflow_provider_workflow.client.event_stream import WakeUps, listen
from airflow_provider_workflow.client.over_aiohttp import shared_session
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.tokens import TokenCache
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.client.conftest import settings_of
from tests.unit.client.listening import (
    STREAMS,
    Naps,
    NewClient,
    client,
    inbox,
    naps,
    new_client,
    nothing_leaks,
    rings,
    silent,
    until,
)

__all__ = ["client", "inbox", "naps", "new_client", "nothing_leaks"]


async def test_a_bell_rings_once_connected_and_with_each_notice(
    client: AsyncWorkflowClient, inbox: str, emulator: EmulatorServer
) -> None:
    async with listen(client, inbox, STREAMS) as bell:
        assert await rings(bell)
        assert await silent(bell)
        emulator.put("orders", {})
        assert await rings(bell)


async def test_a_ring_is_remembered_until_it_is_heard() -> None:
    bell = WakeUps()
    bell.ring()
    bell.ring()
    assert await bell.wait(0)
    assert not await bell.wait(0)


async def test_listeners_share_one_stream(
    new_client: NewClient, inbox: str, emulator: EmulatorServer
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        listeners = []
        for _ in range(3):
            client = await stack.enter_async_context(new_client())
            listeners.append(await stack.enter_async_context(listen(client, inbox, streams=1)))
        assert await rings(listeners[0])
        emulator.put("orders", {})
        for bell in listeners[1:]:
            assert await rings(bell)
        assert emulator.count("events") == 1


async def test_the_stream_outlives_the_listener_that_opened_it(
    new_client: NewClient, inbox: str, emulator: EmulatorServer
) -> None:
    async with contextlib.AsyncExitStack() as later:
        async with new_client() as first, listen(first, inbox, STREAMS) as opening:
            assert await rings(opening)
            bell = await later.enter_async_context(
                listen(await later.enter_async_context(new_client()), inbox, STREAMS)
            )
        await bell.wait(0)
        emulator.put("orders", {})
        assert await rings(bell)
        assert emulator.count("events") == 1
        emulator.emulator.streams.close()
        assert await rings(bell)


async def test_no_stream_outlives_the_session_that_it_was_opened_on(
    settings: Settings, inbox: str, emulator: EmulatorServer, naps: Naps
) -> None:
    # Equal settings may still mean two sessions: REQUESTS_CA_BUNDLE can change in between.
    tokens = TokenCache()
    async with contextlib.AsyncExitStack() as later:
        async with shared_session(None, 1) as one, shared_session(certifi.where(), 1) as other:
            clients = [AsyncWorkflowClient(settings, each, tokens=tokens) for each in (one, other)]
            async with listen(clients[0], inbox, STREAMS) as opening:
                assert await rings(opening)
                await later.enter_async_context(shared_session(certifi.where(), 1))
                bell = await later.enter_async_context(listen(clients[1], inbox, STREAMS))
                assert await rings(bell)
        emulator.put("orders", {})
        assert await rings(bell)


async def test_without_streams_a_bell_never_rings(
    client: AsyncWorkflowClient, inbox: str, emulator: EmulatorServer
) -> None:
    async with listen(client, inbox, streams=0) as bell:
        emulator.put("orders", {})
        assert await silent(bell)
    assert emulator.count("events") == 0


async def test_an_inbox_beyond_the_limit_is_not_listened_to(
    client: AsyncWorkflowClient, inbox: str, emulator: EmulatorServer
) -> None:
    other = emulator.open_inbox("other")
    async with listen(client, inbox, streams=1) as bell:
        async with listen(client, other, streams=1) as beyond:
            assert await rings(bell)
            assert await silent(beyond)
        assert emulator.count("events") == 1
    async with listen(client, other, streams=1) as bell:
        assert await rings(bell)


async def test_the_last_who_leaves_closes_the_stream(
    client: AsyncWorkflowClient, inbox: str, emulator: EmulatorServer
) -> None:
    async with listen(client, inbox, STREAMS), listen(client, inbox, STREAMS) as bell:
        assert await rings(bell)
    await until(lambda: not emulator.emulator.streams.open)


async def test_a_listener_that_is_cancelled_while_it_leaves_stays_cancelled(
    client: AsyncWorkflowClient, inbox: str
) -> None:
    async def listener() -> None:
        async with listen(client, inbox, STREAMS):
            await asyncio.Event().wait()

    task = asyncio.create_task(listener())
    await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.02)


async def test_settings_with_a_prefix_of_their_own_listen_there(
    new_client: NewClient, inbox: str, emulator: EmulatorServer
) -> None:
    settings = settings_of(emulator, inbox_path="/trigger-inbox/api/v1")
    async with new_client(settings) as client, listen(client, inbox, STREAMS) as bell:
        assert await rings(bell)
    assert emulator.requests[-1].path.startswith("/trigger-inbox/api/v1/")
    assert emulator.requests[-1].headers["accept"] == "text/event-stream"
