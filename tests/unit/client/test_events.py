"""The event stream: notices, reconnections, and what several listeners share."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_workflow.client.client import AsyncWorkflowClient
from airflow_provider_workflow.client.event_stream import BusyStreamError, NoticeCounter, WakeUps, listen
from airflow_provider_workflow.client.over_aiohttp import shared_session
from airflow_provider_workflow.client.settings import Settings, trusted
from airflow_provider_workflow.client.tokens import TokenCache
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.client.conftest import settings_of
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


async def test_a_token_that_ran_out_is_renewed_once(
    client: AsyncWorkflowClient, inbox: str, emulator: EmulatorServer, naps: Naps
) -> None:
    async with listen(client, inbox, STREAMS) as listener:
        assert await is_woken_up(listener)
        emulator.store.tokens.expire()
        emulator.emulator.streams.close()
        assert await is_woken_up(listener)
    assert emulator.count("token") == 2
    assert len(naps.taken) == 1


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


async def test_a_server_that_is_away_is_tried_again(
    new_client: NewClient, closed_port: int, naps: Naps
) -> None:
    settings = Settings("http://127.0.0.1:1", "i", "s", f"http://127.0.0.1:{closed_port}/t", verify=False)
    async with new_client(settings) as client, listen(client, "i", STREAMS) as listener:
        await until(lambda: len(naps.taken) > 12)
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


NOTICES = [{"inbox_id": "i", "count": 1}, {"inbox_id": "é", "count": 2}]
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


def fed(*chunks: bytes) -> int:
    """Notices of a stream."""
    counter = NoticeCounter()
    return sum(counter.feed(chunk) for chunk in chunks)


@given(cuts=st.lists(st.integers(0, 200), max_size=8), end=ENDS)
@example(cuts=list(range(200)), end=b"\r\n")
def test_notices_survive_any_cut(cuts: list[int], end: bytes) -> None:
    frames = [b"data: " + json.dumps(each).encode() + end * 2 for each in NOTICES]
    whole = frames[0] + b": keep-alive" + end * 2 + frames[1]
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    assert fed(*(whole[a:b] for a, b in itertools.pairwise(places))) == 2


@pytest.mark.parametrize("data", [b"not json", b"", b"null", b"\xff", b"[" * 60_000])
def test_a_notice_that_cannot_be_read_is_still_a_notice(data: bytes) -> None:
    assert fed(b"data: " + data + b"\n\n") == 1


def test_a_byte_order_mark_hides_no_notice() -> None:
    assert fed(b"\xef\xbb\xbfdata: {}\n\n") == 1


@pytest.mark.parametrize(
    "silence", [b": keep-alive\n\n", b"\n\n\n", b"event: x\nid: 1\nretry: 5\n\n", b"dataset: 1\n\n"]
)
def test_what_is_no_notice_is_silence(silence: bytes) -> None:
    assert fed(silence) == 0


def test_100_notices_in_each_second_are_accepted_and_no_more(fake_clock: FakeClock) -> None:
    counter = NoticeCounter()
    for _ in range(5):
        assert counter.feed(b"data: {}\n\n" * 100) == 100
        fake_clock.advance(1)
    with pytest.raises(BusyStreamError):
        counter.feed(b"data: {}\n\n" * 101)
