"""Airflow cancels a trigger once a second until it has ended: none is lost, and none cuts anything off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_workflow.client import event_stream
from airflow_provider_workflow.client.client import AsyncWorkflowClient, carry_through
from airflow_provider_workflow.client.event_stream import WakeUps, listen
from airflow_provider_workflow.client.exchange import BaseClient
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.tokens import AccessToken
from tests.unit.client.listening import (
    LONG,
    STREAMS,
    client,
    inbox,
    is_woken_up,
    naps,
    new_client,
    nothing_leaks,
)

__all__ = ["client", "inbox", "naps", "new_client", "nothing_leaks"]


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
    answered, did = asyncio.Event(), []

    async def renew() -> str:
        await answered.wait()
        did.append("renewed")
        if fault is not None:
            raise fault
        return "token"

    task = asyncio.ensure_future(carry_through(renew()))
    await turns()
    await cancelled_again_and_again(task)
    assert not task.done()

    answered.set()
    await ends_cancelled(task)
    assert did == ["renewed"]


async def test_a_stream_that_renews_its_token_ends_before_its_listener_does(
    client: AsyncWorkflowClient, inbox: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answered, did = asyncio.Event(), asyncio.Event(), []

    async def renew() -> None:
        asked.set()
        await answered.wait()
        did.append("renewed")

    async def notices_of(*_: object) -> AsyncIterator[None]:
        await carry_through(renew())
        yield None

    async def listens() -> None:
        try:
            async with listen(client, inbox, STREAMS) as listener:
                await is_woken_up(listener)
        finally:
            did.append("left")

    monkeypatch.setattr(event_stream, "notices_of", notices_of)
    task = asyncio.ensure_future(listens())
    await asked.wait()
    await cancelled_again_and_again(task)
    answered.set()
    await ends_cancelled(task)
    assert did == ["renewed", "left"]


async def test_a_stream_that_misses_a_cancellation_ends_at_the_next(
    client: AsyncWorkflowClient, inbox: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = asyncio.Event()

    async def notices_of(*_: object) -> AsyncIterator[None]:
        try:
            began.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.Event().wait()
        yield None

    async def listens() -> None:
        async with listen(client, inbox, STREAMS) as listener:
            await is_woken_up(listener)

    monkeypatch.setattr(event_stream, "notices_of", notices_of)
    task = asyncio.ensure_future(listens())
    await began.wait()
    await cancelled_again_and_again(task)
    await ends_cancelled(task)


async def rung(go: asyncio.Event, _: Settings) -> None:
    listener = WakeUps()

    async def ring() -> None:
        await go.wait()
        listener.wake_up()

    ringing = asyncio.ensure_future(ring())
    await listener.wait(LONG)
    await ringing


async def refused(go: asyncio.Event, settings: Settings) -> None:
    chunks = iter([b"{}", b""])

    async def readany() -> bytes:
        await go.wait()
        return next(chunks)

    response: Any = SimpleNamespace(
        status=404, content=SimpleNamespace(readany=readany, at_eof=lambda: False), headers={}
    )
    of: Any = BaseClient(settings)
    await event_stream.refusal_of(of, response, LONG, AccessToken("token", 0, 0))


@pytest.mark.parametrize("waits", [rung, refused])
@pytest.mark.parametrize("turns_later", range(5))
async def test_a_cancellation_that_comes_with_an_answer_is_not_lost(
    waits: Callable[[asyncio.Event, Settings], Awaitable[None]], turns_later: int, settings: Settings
) -> None:
    go = asyncio.Event()

    async def wait_on() -> None:
        await waits(go, settings)
        await asyncio.Event().wait()

    task = asyncio.ensure_future(wait_on())
    await turns()
    go.set()
    await turns(turns_later)
    task.cancel()
    await ends_cancelled(task)
