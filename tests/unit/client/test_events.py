"""The event stream: rings on connecting and on notices, shared, limited, closed by the last who leaves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import certifi
import pytest

from airflow_provider_workflow.client import events
from airflow_provider_workflow.client.auth import TokenCache
from airflow_provider_workflow.client.client import AsyncWorkflowClient
from airflow_provider_workflow.client.events import Bell, listen
from airflow_provider_workflow.client.over_aiohttp import _sessions, shared_session
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.client.conftest import settings_of
from tests.unit.client.scripted import ScriptedServer, answer

LONG = 10.0
"""Seconds that a test gives to what should come at once."""


class Naps:
    """Sleeps that end at once, but for those of the patient, which end when they are cancelled."""

    def __init__(self) -> None:
        self.taken: list[float] = []
        self.long = asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)
        if seconds >= 60:
            self.long.set()
            await asyncio.Event().wait()
        await asyncio.sleep(0)


@pytest.fixture
def naps() -> Naps:
    return Naps()


NewClient = Callable[..., Any]


@pytest.fixture
def new_client(settings: Settings, naps: Naps) -> NewClient:
    """Clients as a hook makes them: each enters the session of the loop."""
    tokens = TokenCache()

    @contextlib.asynccontextmanager
    async def new(of: Settings = settings) -> AsyncIterator[AsyncWorkflowClient]:
        async with shared_session(of.ca_file(), 10) as session:
            yield AsyncWorkflowClient(of, session, tokens=tokens, sleep=naps)

    return new


@pytest.fixture
async def client(new_client: NewClient) -> AsyncIterator[AsyncWorkflowClient]:
    async with new_client() as made:
        yield made


@pytest.fixture
def inbox(emulator: EmulatorServer) -> str:
    return emulator.open_inbox("orders")


@pytest.fixture(autouse=True)
async def nothing_leaks() -> AsyncIterator[None]:
    yield
    loop = asyncio.get_running_loop()
    assert not events._streams.get(loop)
    assert not _sessions.get(loop)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def silent(bell: Bell) -> bool:
    """Whether the bell does not ring within a moment."""
    return not await bell.wait(0.05)


async def until(condition: Callable[[], bool]) -> None:
    async def watch() -> None:
        while not condition():  # noqa: ASYNC110 what it watches is in another thread
            await asyncio.sleep(0.005)

    await asyncio.wait_for(watch(), LONG)


async def test_a_bell_rings_once_connected_and_with_each_notice(
    client: AsyncWorkflowClient, inbox: str, emulator: EmulatorServer
) -> None:
    async with listen(client, inbox) as bell:
        assert await bell.wait(LONG)
        assert await silent(bell)
        emulator.put("orders", {})
        assert await bell.wait(LONG)


async def test_a_ring_is_remembered_until_it_is_heard() -> None:
    bell = Bell()
    bell.ring()
    bell.ring()
    assert await bell.wait(0)
    assert not await bell.wait(0)


async def test_a_stream_that_ends_is_opened_again_and_rings(
    client: AsyncWorkflowClient, inbox: str, emulator: EmulatorServer, naps: Naps
) -> None:
    async with listen(client, inbox) as bell:
        for _ in range(6):
            assert await bell.wait(LONG)
            await until(lambda: bool(emulator.emulator.streams.open))
            emulator.emulator.streams.close()
        assert await bell.wait(LONG)
    assert all(
        pause <= nap <= 1.25 * pause
        for nap, pause in zip(naps.taken, (0.5, 1.0, 2.0, 5.0, 5.0, 5.0), strict=False)
    )


async def test_a_notice_makes_the_pauses_short_again(
    client: AsyncWorkflowClient, inbox: str, emulator: EmulatorServer, naps: Naps
) -> None:
    emulator.fault("drop", operation="events", times=6)  # aiohttp tries each twice
    async with listen(client, inbox) as bell:
        assert await bell.wait(LONG)
        await until(lambda: bool(emulator.emulator.streams.open))
        emulator.put("orders", {})
        assert await bell.wait(LONG)
        before = len(naps.taken)
        emulator.emulator.streams.close()
        assert await bell.wait(LONG)
    assert naps.taken[before - 1] >= 2.0
    assert naps.taken[before] <= 0.5 * 1.25


async def test_listeners_share_one_stream(
    new_client: NewClient, inbox: str, emulator: EmulatorServer
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        bells = []
        for _ in range(3):
            client = await stack.enter_async_context(new_client())
            bells.append(await stack.enter_async_context(listen(client, inbox, streams=1)))
        assert await bells[0].wait(LONG)
        emulator.put("orders", {})
        for bell in bells[1:]:
            assert await bell.wait(LONG)
        assert emulator.count("events") == 1


async def test_the_stream_outlives_the_listener_that_opened_it(
    new_client: NewClient, inbox: str, emulator: EmulatorServer
) -> None:
    async with contextlib.AsyncExitStack() as later:
        async with new_client() as first, listen(first, inbox) as opening:
            assert await opening.wait(LONG)
            bell = await later.enter_async_context(
                listen(await later.enter_async_context(new_client()), inbox)
            )
        await bell.wait(0)
        emulator.put("orders", {})
        assert await bell.wait(LONG)
        assert emulator.count("events") == 1
        emulator.emulator.streams.close()
        assert await bell.wait(LONG)


async def test_no_stream_outlives_the_session_that_it_was_opened_on(
    settings: Settings, inbox: str, emulator: EmulatorServer, naps: Naps
) -> None:
    # Equal settings may still mean two sessions: REQUESTS_CA_BUNDLE can change in between.
    tokens = TokenCache()
    async with contextlib.AsyncExitStack() as later:
        async with shared_session(None, 1) as one, shared_session(certifi.where(), 1) as other:
            clients = [
                AsyncWorkflowClient(settings, each, tokens=tokens, sleep=naps) for each in (one, other)
            ]
            async with listen(clients[0], inbox) as opening:
                assert await opening.wait(LONG)
                await later.enter_async_context(shared_session(certifi.where(), 1))
                bell = await later.enter_async_context(listen(clients[1], inbox))
                assert await bell.wait(LONG)
        emulator.put("orders", {})
        assert await bell.wait(LONG)


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
            assert await bell.wait(LONG)
            assert await silent(beyond)
        assert emulator.count("events") == 1
    async with listen(client, other, streams=1) as bell:
        assert await bell.wait(LONG)


async def test_the_last_who_leaves_closes_the_stream(
    client: AsyncWorkflowClient, inbox: str, emulator: EmulatorServer
) -> None:
    async with listen(client, inbox), listen(client, inbox) as bell:
        assert await bell.wait(LONG)
    await until(lambda: not emulator.emulator.streams.open)


async def test_a_listener_that_is_cancelled_while_it_leaves_stays_cancelled(
    client: AsyncWorkflowClient, inbox: str
) -> None:
    async def listener() -> None:
        async with listen(client, inbox):
            await asyncio.Event().wait()

    task = asyncio.create_task(listener())
    await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.02)


async def test_a_token_that_ran_out_is_renewed_once(
    client: AsyncWorkflowClient, inbox: str, emulator: EmulatorServer, naps: Naps
) -> None:
    async with listen(client, inbox) as bell:
        assert await bell.wait(LONG)
        emulator.store.tokens.expire()
        emulator.emulator.streams.close()
        assert await bell.wait(LONG)
    assert emulator.count("token") == 2
    assert len(naps.taken) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405])
async def test_a_stream_that_is_refused_is_left_alone_for_five_minutes(
    status: int, client: AsyncWorkflowClient, inbox: str, emulator: EmulatorServer, naps: Naps
) -> None:
    emulator.fault("status", operation="events", status=status, times=None)
    async with listen(client, inbox) as bell:
        await asyncio.wait_for(naps.long.wait(), LONG)
        assert await silent(bell)
    assert 300 <= naps.taken[-1] <= 375
    assert emulator.count("events") == 1


async def test_a_wrong_secret_leaves_the_stream_alone(
    client: AsyncWorkflowClient, inbox: str, emulator: EmulatorServer, naps: Naps
) -> None:
    emulator.store.configure(client_secret="regenerated")
    async with listen(client, inbox):
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
    async with listen(client, inbox) as bell:
        assert await bell.wait(LONG)
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
    async with new_client(scripted.settings()) as client, listen(client, "i") as bell:
        await asyncio.wait_for(naps.long.wait(), LONG)
        assert await silent(bell)


async def test_a_server_that_is_away_is_tried_again(
    new_client: NewClient, closed_port: int, naps: Naps
) -> None:
    settings = Settings("http://127.0.0.1:1", "i", "s", f"http://127.0.0.1:{closed_port}/t", verify=False)
    async with new_client(settings) as client, listen(client, "i") as bell:
        await until(lambda: len(naps.taken) > 12)
        assert await silent(bell)


async def test_a_fault_of_our_own_ends_no_stream(
    client: AsyncWorkflowClient, inbox: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    original, broken = events._signed, [True]

    def breaks_once(*arguments: Any) -> Any:
        if broken.pop():
            broken.append(False)
            raise KeyError("a fault")
        broken.append(False)
        return original(*arguments)

    monkeypatch.setattr(events, "_signed", breaks_once)
    async with listen(client, inbox) as bell:
        assert await bell.wait(LONG)
    assert "broke: KeyError" in caplog.text


async def test_settings_with_a_prefix_of_their_own_listen_there(
    new_client: NewClient, inbox: str, emulator: EmulatorServer
) -> None:
    settings = settings_of(emulator, inbox_path="/trigger-inbox/api/v1")
    async with new_client(settings) as client, listen(client, inbox) as bell:
        assert await bell.wait(LONG)
    assert emulator.requests[-1].path.startswith("/trigger-inbox/api/v1/")
    assert emulator.requests[-1].headers["accept"] == "text/event-stream"
