"""The event stream: notices, reconnections, and what several listeners share."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from airflow_provider_workflow.client.client import AsyncWorkflowClient
from airflow_provider_workflow.client.event_stream import BusyStreamError, NoticeCounter, listen
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.client.listening import (
    LONG,
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
from tests.unit.client.scripted import ScriptedServer, answer
from tests.unit.fake_clock import FakeClock

__all__ = ["client", "inbox", "naps", "new_client", "nothing_leaks"]


async def test_a_listener_is_woken_up_once_connected_and_by_each_notice(
    client: AsyncWorkflowClient, inbox: str, emulator: EmulatorServer
) -> None:
    async with listen(client, inbox, STREAMS) as listener:
        assert await is_woken_up(listener)
        assert await silent(listener)
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


async def test_a_stream_that_ends_is_opened_again_and_rings(
    client: AsyncWorkflowClient, inbox: str, emulator: EmulatorServer, naps: Naps
) -> None:
    async with listen(client, inbox, STREAMS) as listener:
        for _ in range(6):
            assert await is_woken_up(listener)
            await until(lambda: bool(emulator.emulator.streams.open))
            emulator.emulator.streams.close()
        assert await is_woken_up(listener)
    assert all(
        pause <= nap <= 1.25 * pause
        for nap, pause in zip(naps.taken, (0.5, 1.0, 2.0, 5.0, 5.0, 5.0), strict=False)
    )


async def test_a_notice_makes_the_pauses_short_again(
    client: AsyncWorkflowClient, inbox: str, emulator: EmulatorServer, naps: Naps
) -> None:
    emulator.fault("drop", operation="events", times=6)  # aiohttp tries each twice
    async with listen(client, inbox, STREAMS) as listener:
        assert await is_woken_up(listener)
        await until(lambda: bool(emulator.emulator.streams.open))
        emulator.put("orders", {})
        assert await is_woken_up(listener)
        before = len(naps.taken)
        emulator.emulator.streams.close()
        assert await is_woken_up(listener)
    assert naps.taken[before - 1] >= 2.0
    assert naps.taken[before] <= 0.5 * 1.25


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405])
async def test_a_stream_that_is_refused_is_left_alone_for_five_minutes(
    status: int, client: AsyncWorkflowClient, inbox: str, emulator: EmulatorServer, naps: Naps
) -> None:
    emulator.fault("status", operation="events", status=status, times=None)
    async with listen(client, inbox, STREAMS) as listener:
        await asyncio.wait_for(naps.long.wait(), LONG)
        assert await silent(listener)
    assert 300 <= naps.taken[-1] <= 375
    assert emulator.count("events") == 1


async def test_a_wrong_secret_leaves_the_stream_alone(
    client: AsyncWorkflowClient, inbox: str, emulator: EmulatorServer, naps: Naps
) -> None:
    emulator.store.configure(client_secret="regenerated")
    async with listen(client, inbox, STREAMS):
        await asyncio.wait_for(naps.long.wait(), LONG)
    assert emulator.count("token") == 1


@pytest.mark.parametrize(
    ("status", "headers", "least"),
    [(429, {"Retry-After": "33"}, 33), (503, {"Retry-After": "33"}, 33), (503, {"Retry-After": "0"}, 0.5)],
)
async def test_a_busy_service_is_given_the_time_that_it_asks_for(
    status: int,
    headers: dict[str, str],
    least: float,
    client: AsyncWorkflowClient,
    inbox: str,
    emulator: EmulatorServer,
    naps: Naps,
) -> None:
    emulator.fault("status", operation="events", status=status, headers=headers)
    async with listen(client, inbox, STREAMS) as listener:
        assert await is_woken_up(listener)
    assert naps.taken[0] >= least


@pytest.mark.parametrize(
    "reply",
    [
        answer(200, b"<html>welcome</html>", {"Content-Type": "text/html"}),
        answer(302, b"", {"Location": "https://elsewhere.example.com/"}),
    ],
)
async def test_what_is_no_event_stream_never_rings(
    reply: bytes, new_client: NewClient, scripted: ScriptedServer, naps: Naps
) -> None:
    scripted.answers = [reply]
    async with new_client(scripted.settings()) as client, listen(client, "i", STREAMS) as listener:
        await asyncio.wait_for(naps.long.wait(), LONG)
        assert await silent(listener)


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


def test_100_notices_in_each_second_are_accepted_and_no_more(fake_clock: FakeClock) -> None:
    counter = NoticeCounter()
    for _ in range(5):
        assert counter.feed(b"data: {}\n\n" * 100) == 100
        fake_clock.advance(1)
    with pytest.raises(BusyStreamError):
        counter.feed(b"data: {}\n\n" * 101)
