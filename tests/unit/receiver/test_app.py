"""What the service, and everybody else, gets to see of a receiver: over real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp
import pytest

from airflow_provider_workflow.receiver import server as module
from airflow_provider_workflow.receiver.addresses import Addresses
from airflow_provider_workflow.receiver.app import MOST_BODY_BYTES, Receiver, Settings
from airflow_provider_workflow.receiver.server import build_server, listen
from tests.unit.receiver.airflow import FakeAirflow
from tests.unit.receiver.conftest import CREDENTIALS, Pauses

ROUTES = {"orders": "dispatch", "invoices": "dispatch_invoices"}
ADDRESSES = Addresses(["a-secret-of-forty-characters-0123456789", "an-older-one" * 4], ROUTES)
NOTICE = {"inbox_id": "0d3b", "received_message_count": 1, "redelivery": False}


@dataclass
class Running:
    """A receiver that listens."""

    port: int
    session: aiohttp.ClientSession

    async def send(self, method: str, path: str, **given: Any) -> tuple[int, bytes, dict[str, str]]:
        url = f"http://127.0.0.1:{self.port}{path}"
        async with self.session.request(method, url, allow_redirects=False, **given) as answer:
            return answer.status, await answer.read(), dict(answer.headers)

    async def post(self, inbox: str = "orders", **given: Any) -> int:
        return (await self.send("POST", ADDRESSES.path(inbox), **given))[0]

    async def raw(self, content: bytes) -> bytes:
        """Send bytes as they are, and read to the end of the connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(content)
        try:
            return await asyncio.wait_for(reader.read(), 10)
        finally:
            writer.close()


class Run(Protocol):
    def __call__(self) -> AbstractAsyncContextManager[Running]: ...


@pytest.fixture
def run(airflow: FakeAirflow, pauses: Pauses) -> Run:
    """Run a receiver."""

    @asynccontextmanager
    async def running() -> AsyncIterator[Running]:
        settings = Settings(ROUTES, ADDRESSES, airflow.url, CREDENTIALS)
        listener = listen("127.0.0.1", 0)
        server = build_server(Receiver(settings))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        async with aiohttp.ClientSession(trust_env=False) as session:
            yield Running(listener.getsockname()[1], session)
        server.should_exit = True
        await asyncio.wait_for(serving, 20)

    return running


@pytest.fixture
async def receiver(run: Run, airflow: FakeAirflow) -> AsyncIterator[Running]:
    """A receiver whose first rings, of its start, are over and whose runs have ended."""
    async with run() as running:
        for _ in ROUTES:
            (await airflow.next_run()).state = "success"
        yield running


async def settle(pauses: Pauses) -> None:
    """End the pauses after the first rings, so that doorbells are free to answer what was rung since."""
    for _ in ROUTES:
        (await pauses.next()).end()


async def test_a_receiver_that_starts_rings_for_every_inbox(run: Run, airflow: FakeAirflow) -> None:
    for number in (1, 2):
        async with run():
            started = [await airflow.next_run() for _ in ROUTES]
        assert {(each.dag_id, each.conf["inbox"]) for each in started} == {
            ("dispatch", "orders"),
            ("dispatch_invoices", "invoices"),
        }
        assert {each.run_id.rpartition("__")[2] for each in started} == {str(number)}
        for each in started:
            each.state = "success"


async def test_a_notification_starts_a_run(receiver: Running, airflow: FakeAirflow, pauses: Pauses) -> None:
    status, body, headers = await receiver.send("POST", ADDRESSES.path("orders"), json=NOTICE)
    assert (status, body) == (200, b"")
    assert "server" not in {name.lower() for name in headers}
    await settle(pauses)
    run = await airflow.next_run()
    assert (run.dag_id, run.conf) == ("dispatch", {"inbox": "orders"})


async def test_a_hundred_notifications_at_once_start_one_run(
    receiver: Running, airflow: FakeAirflow, pauses: Pauses
) -> None:
    answers = await asyncio.gather(*(receiver.post(json=NOTICE) for _ in range(100)))
    assert answers == [200] * 100
    await settle(pauses)
    await airflow.next_run()
    await pauses.next()
    assert [run.state for run in airflow.runs if run.dag_id == "dispatch"] == ["success", "queued"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00\xff garbage {",
        b"[" * 10_000,
        b'{"inbox_id": "invoices", "dag_id": "dispatch_invoices", "conf": {"inbox": "invoices"}}',
        b'{"received_message_count": -1e999, "redelivery": "../../"}',
        b"x" * MOST_BODY_BYTES,
    ],
    ids=["empty", "garbage", "nested", "hostile", "numbers", "long"],
)
async def test_whatever_a_notification_says_it_means_the_inbox_of_its_address(
    receiver: Running, airflow: FakeAirflow, pauses: Pauses, body: bytes
) -> None:
    assert await receiver.post("orders", data=body) == 200
    await settle(pauses)
    run = await airflow.next_run()
    assert (run.dag_id, run.conf) == ("dispatch", {"inbox": "orders"})


async def test_an_endless_body_is_answered_without_being_read(receiver: Running) -> None:
    head = f"POST {ADDRESSES.path('orders')} HTTP/1.1\r\nHost: a\r\nContent-Length: {10**12}\r\n\r\n"
    answer = await receiver.raw(head.encode() + b"x" * (MOST_BODY_BYTES + 1))
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in answer.lower()


async def test_a_sender_that_leaves_in_the_middle_has_rung(
    receiver: Running, airflow: FakeAirflow, pauses: Pauses
) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", receiver.port)
    writer.write(
        f"POST {ADDRESSES.path('orders')} HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{{".encode()
    )
    await writer.drain()
    writer.close()
    await settle(pauses)
    assert (await airflow.next_run()).conf == {"inbox": "orders"}


async def test_the_address_of_an_older_secret_rings_too(
    receiver: Running, airflow: FakeAirflow, pauses: Pauses
) -> None:
    older = Addresses(["an-older-one" * 4], ROUTES).path("invoices")
    assert (await receiver.send("POST", older, json=NOTICE))[0] == 200
    await settle(pauses)
    assert (await airflow.next_run()).conf == {"inbox": "invoices"}


async def test_everything_else_is_not_there_and_looks_the_same(
    receiver: Running, airflow: FakeAirflow, pauses: Pauses
) -> None:
    right = ADDRESSES.path("orders")
    wrong = [
        *(("POST", path) for path in ("/", "/orders", "/docs", "/" + "A" * 43, right + "/", right[:-1])),
        *((method, right) for method in ("GET", "PUT", "DELETE", "OPTIONS", "PATCH")),
    ]
    answers = [await receiver.send(method, path, json=NOTICE) for method, path in wrong]
    assert {(status, body) for status, body, _ in answers} == {(404, b"")}
    assert len({tuple(sorted(set(headers) - {"date"})) for _, _, headers in answers}) == 1
    await settle(pauses)
    assert await receiver.post("invoices", json=NOTICE) == 200
    assert (await airflow.next_run()).conf == {"inbox": "invoices"}
    await pauses.next()
    assert airflow.looks == len(ROUTES) + 1, "nobody asked for the orders"


async def test_the_service_does_not_wait_for_airflow(
    receiver: Running, airflow: FakeAirflow, pauses: Pauses
) -> None:
    airflow.open.clear()
    await settle(pauses)
    assert await receiver.post(json=NOTICE) == 200
    assert await receiver.post(json=NOTICE) == 200
    airflow.open.set()
    assert (await airflow.next_run()).conf == {"inbox": "orders"}


async def test_what_is_no_http_is_refused_without_a_word(
    receiver: Running, caplog: pytest.LogCaptureFixture
) -> None:
    assert (await receiver.raw(b"\x16\x03\x01\x00 not http\r\n\r\n")).startswith(b"HTTP/1.1 400")
    assert not [each for each in caplog.records if each.name.startswith("uvicorn")]


async def test_whoever_dawdles_is_cut_off(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECTION_SECONDS", 0.01)
    async with run() as receiver:
        try:
            received = await receiver.raw(b"POST /")
        except ConnectionResetError:
            received = b""
        assert received == b""


async def test_whoever_opens_too_many_connections_is_turned_away(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_CONNECTIONS", 2)
    async with run() as receiver:
        opened = [await asyncio.open_connection("127.0.0.1", receiver.port) for _ in range(2)]
        assert await receiver.post(json=NOTICE) == 503
        for _, writer in opened:
            writer.close()
