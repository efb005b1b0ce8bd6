"""The event stream: wakes up on connecting and on notices; shared, limited, closed by its last listener."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from airflow_provider_workflow.client.client import AsyncWorkflowClient
from airflow_provider_workflow.client.event_stream import WakeUps, listen
from airflow_provider_workflow.client.over_aiohttp import shared_session
from airflow_provider_workflow.client.settings import Settings, trusted
from airflow_provider_workflow.client.tokens import TokenCache
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.client.conftest import settings_of
from tests.unit.client.listening import (
    STREAMS,
    Naps,
    NewClient,
    client,
    inbox,
    is_woken_up,
    naps,
    new_client,
    nothing_leaks,
    silent,
    until,
)

__all__ = ["client", "inbox", "naps", "new_client", "nothing_leaks"]

CERTIFICATES = trusted(True)


async def test_a_listener_is_woken_up_once_connected_and_by_each_notice(
    client: AsyncWorkflowClient, inbox: str, emulator: EmulatorServer
) -> None:
    async with listen(client, inbox, STREAMS) as listener:
        assert await is_woken_up(listener)
        assert await silent(listener)
        emulator.put("orders", {})
        assert await is_woken_up(listener)


async def test_a_wake_up_is_kept_until_it_is_waited_for() -> None:
    listener = WakeUps()
    listener.wake_up()
    listener.wake_up()
    assert await listener.wait(0)
    assert not await listener.wait(0)


async def test_listeners_share_one_stream(
    new_client: NewClient, inbox: str, emulator: EmulatorServer
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        listeners = []
        for _ in range(3):
            client = await stack.enter_async_context(new_client())
            listeners.append(await stack.enter_async_context(listen(client, inbox, streams=1)))
        assert await is_woken_up(listeners[0])
        emulator.put("orders", {})
        for listener in listeners[1:]:
            assert await is_woken_up(listener)
        assert emulator.count("events") == 1


async def test_the_stream_outlives_the_listener_that_opened_it(
    new_client: NewClient, inbox: str, emulator: EmulatorServer
) -> None:
    async with contextlib.AsyncExitStack() as later:
        async with new_client() as first, listen(first, inbox, STREAMS) as opening:
            assert await is_woken_up(opening)
            listener = await later.enter_async_context(
                listen(await later.enter_async_context(new_client()), inbox, STREAMS)
            )
        await listener.wait(0)
        emulator.put("orders", {})
        assert await is_woken_up(listener)
        assert emulator.count("events") == 1
        emulator.emulator.streams.close()
        assert await is_woken_up(listener)


async def test_no_stream_outlives_the_session_that_it_was_opened_on(
    settings: Settings, inbox: str, emulator: EmulatorServer, naps: Naps
) -> None:
    # Equal settings may still mean two sessions: the certificates can change in between.
    tokens = TokenCache()
    async with contextlib.AsyncExitStack() as later:
        async with shared_session(None, 1) as one, shared_session(CERTIFICATES, 1) as other:
            clients = [AsyncWorkflowClient(settings, each, tokens=tokens) for each in (one, other)]
            async with listen(clients[0], inbox, STREAMS) as opening:
                assert await is_woken_up(opening)
                await later.enter_async_context(shared_session(CERTIFICATES, 1))
                listener = await later.enter_async_context(listen(clients[1], inbox, STREAMS))
                assert await is_woken_up(listener)
        emulator.put("orders", {})
        assert await is_woken_up(listener)


async def test_without_streams_there_are_no_wake_ups(
    client: AsyncWorkflowClient, inbox: str, emulator: EmulatorServer
) -> None:
    async with listen(client, inbox, streams=0) as listener:
        assert listener is None
    assert emulator.count("events") == 0


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


async def test_the_last_who_leaves_closes_the_stream(
    client: AsyncWorkflowClient, inbox: str, emulator: EmulatorServer
) -> None:
    async with listen(client, inbox, STREAMS), listen(client, inbox, STREAMS) as listener:
        assert await is_woken_up(listener)
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
    async with new_client(settings) as client, listen(client, inbox, STREAMS) as listener:
        assert await is_woken_up(listener)
    assert emulator.requests[-1].path.startswith("/trigger-inbox/api/v1/")
    assert emulator.requests[-1].headers["accept"] == "text/event-stream"
