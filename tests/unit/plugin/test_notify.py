"""What a caller of the notification endpoint gets, and what becomes of a notification."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from itertools import chain
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from cryptography.fernet import Fernet
from starlette.applications import Starlette
from starlette.routing import Mount

from airflow_provider_workflow.notifications import notification_url
from airflow_provider_workflow.plugin.asset_events import Outcome
from airflow_provider_workflow.plugin.notify import (
    BODY_SECONDS,
    LONGEST_BACKOFF_SECONDS,
    MOST_BODY_BYTES,
    MOST_THREADS,
    PAUSE_SECONDS,
    NotificationEndpoint,
    NotificationQueue,
    NotifiedInbox,
)
from tests.unit.fake_clock import FakeClock

ORDERS = NotifiedInbox("workflow_default", "orders")
RECORDED = (ORDERS.uri, {"inbox": "orders", "workflow_conn_id": "workflow_default"})
NOTIFICATION = {"inbox_id": "0d3b", "received_message_count": 1, "redelivery": False}


class Database:
    """Stands for the database: notes the events, and gives outcomes one after the other."""

    def __init__(self) -> None:
        self.recorded: list[tuple[str, Any]] = []
        self.outcomes: list[Outcome | Exception] = []

    def record(self, uri: str, extra: dict[str, Any]) -> Outcome:
        assert extra["from_notification"] is True
        self.recorded.append((uri, extra["payload"]))
        outcome = self.outcomes.pop(0) if self.outcomes else Outcome.RECORDED
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


class Flags(NotificationQueue):
    """Notes what it is notified of, and does nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.notified: list[tuple[str, str]] = []

    def put(self, inbox: NotifiedInbox) -> None:
        self.notified.append((inbox.connection_id, inbox.name))


@pytest.fixture(autouse=True)
def configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", Fernet.generate_key().decode())
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://testserver")


@pytest.fixture
def queue() -> Flags:
    return Flags()


class Server:
    """The endpoint, mounted as the plugin's application is; Starlette's test client decodes a path twice."""

    def __init__(self, endpoint: NotificationEndpoint) -> None:
        plugin = Starlette(routes=[Mount("/notify", endpoint)])
        self.app = Starlette(routes=[Mount("/workflow", plugin)])

    async def send(self, method: str, url: str, body: bytes = b"{}", **scope: Any) -> list[dict[str, Any]]:
        """Send a request; return the messages of the answer."""
        path = unquote(urlsplit(url).path)
        answer: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            answer.append(message)

        request = {"type": "http", "method": method, "path": path, "headers": [], "query_string": b""}
        await self.app({**request, **scope}, receive, send)
        return answer

    async def status(self, method: str, url: str, body: bytes = b"{}") -> int:
        return int((await self.send(method, url, body))[0]["status"])


@pytest.fixture
def server(queue: Flags) -> Server:
    return Server(NotificationEndpoint(queue))


def url(inbox: str = "orders", connection: str = "workflow_default") -> str:
    return notification_url(inbox, connection)


# The endpoint


@pytest.mark.parametrize(
    ("connection", "inbox"),
    [
        ("workflow_default", "orders"),
        ("Shop/a:b", "a/b c%2F?#é\U0001f600'\""),
        (".", ".."),
        ("%41", "a%252Fb"),
    ],
)
async def test_a_notification_names_the_inbox_that_the_url_was_made_for(
    server: Server, queue: Flags, connection: str, inbox: str
) -> None:
    start, rest = await server.send("POST", url(inbox, connection), json.dumps(NOTIFICATION).encode())

    assert (start["status"], rest["body"]) == (200, b"")
    assert queue.notified == [(connection, inbox)]


@pytest.mark.parametrize("body", [b"", b"\xff{", b"[" * 10_000, b'{"inbox_id": "invoices"}'])
async def test_whatever_a_notification_says_it_means_the_inbox_of_its_url(
    server: Server, queue: Flags, body: bytes
) -> None:
    assert await server.status("POST", url(), body) == 200
    assert queue.notified == [("workflow_default", "orders")]


async def test_the_url_of_a_key_that_was_replaced_is_right_until_the_key_is_removed(
    queue: Flags, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (Fernet.generate_key().decode() for _ in range(2))
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", old)
    given = url()

    async def answered(keys: str) -> int:
        monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", keys)
        return await Server(NotificationEndpoint(queue)).status("POST", given)

    assert [await answered(keys) for keys in (f"{new}, {old}", new)] == [200, 404]


async def test_everything_else_does_not_exist_and_looks_the_same(server: Server, queue: Flags) -> None:
    right = urlsplit(url()).path
    stem, _, mac = right.rpartition("/")
    wrong = [
        *(("POST", f"{stem}/{each}") for each in ("", mac[:-1], f"{mac}/", "A" * 43, "\u00e9", f"{mac}=")),
        *(("POST", f"/workflow/notify{each}") for each in ("/", "/a/b", "/a/b/c/d", f"/a/{mac}")),
        ("POST", right.replace("orders", "invoices")),
        ("POST", right.replace("orders", "%25ff")),
        ("POST", right.replace("orders", "o" * 3000)),
        *((method, right) for method in ("PUT", "DELETE", "OPTIONS", "PATCH")),
    ]

    answers = [await server.send(method, path) for method, path in wrong]

    assert answers == [answers[0]] * len(wrong)
    assert (answers[0][0]["status"], answers[0][1]["body"]) == (404, b'{"detail":"Not Found"}')
    assert queue.notified == []


async def test_a_get_shows_that_the_url_is_right_and_notifies_nobody(server: Server, queue: Flags) -> None:
    assert await server.status("GET", url()) == 200
    assert await server.status("GET", url()[:-1]) == 404
    assert queue.notified == []


async def test_a_websocket_is_closed(server: Server) -> None:
    (answer,) = await server.send("GET", url(), type="websocket")

    assert answer["type"] == "websocket.close"


@pytest.mark.parametrize("value", ["", "{FERNET_KEY}", "short", "A" * 40, "\u00e9"])
async def test_without_a_fernet_key_nothing_exists_and_the_log_says_why_once(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, value: str
) -> None:
    given = url()
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", value)

    assert [await server.status("POST", given) for _ in range(2)] == [404, 404]
    (line,) = [each.getMessage() for each in caplog.records if each.name.endswith("notify")]
    assert line.startswith("Notifications of inboxes are answered with 404: [core] fernet_key is ")


class Sender:
    """A request as an ASGI server passes it on, with a body that never ends."""

    def __init__(self, chunk: bytes | None) -> None:
        path = unquote(urlsplit(url()).path)
        self.scope: dict[str, Any] = {
            "type": "http", "method": "POST", "path": path, "root_path": "/workflow/notify", "headers": []
        }  # fmt: skip
        self.chunk = chunk
        self.read = 0
        self.statuses: list[int] = []

    async def receive(self) -> dict[str, Any]:
        if self.chunk is None:
            await asyncio.Event().wait()
        chunk = self.chunk or b""
        self.read += len(chunk)
        return {"type": "http.request", "body": chunk, "more_body": True}

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.statuses.append(message["status"])


async def test_an_endless_body_is_answered_without_being_read_to_its_end(queue: Flags) -> None:
    sender = Sender(b"x" * 1024)
    await NotificationEndpoint(queue)(sender.scope, sender.receive, sender.send)

    assert sender.statuses == [200]
    assert sender.read == MOST_BODY_BYTES + 1024
    assert len(queue.notified) == 1


async def test_a_sender_that_stops_in_the_middle_is_answered_after_some_seconds(
    queue: Flags, fake_clock: FakeClock
) -> None:
    sender = Sender(None)
    answering = asyncio.create_task(NotificationEndpoint(queue)(sender.scope, sender.receive, sender.send))
    await fake_clock.elapse(BODY_SECONDS - 1)
    assert sender.statuses == []
    await fake_clock.elapse(1)
    await answering

    assert sender.statuses == [200]
    assert len(queue.notified) == 1, "it counts from its first line on"


@pytest.mark.parametrize("more", ["", "x", "/", "/x"])
async def test_what_logs_the_path_once_the_answer_has_begun_logs_no_mac(server: Server, more: str) -> None:
    scope: dict[str, Any] = {"path": unquote(urlsplit(url()).path) + more}
    logged: list[str] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(_: Any) -> None:
        logged.append(scope["path"])

    scope |= {"type": "http", "method": "POST", "headers": [], "query_string": b""}
    await server.app(scope, receive, send)

    assert set(logged) == {"/workflow/notify/workflow_default/orders/hidden"}


# The queue


@pytest.fixture
def database() -> Database:
    return Database()


@pytest.fixture
async def records(database: Database, fake_clock: FakeClock) -> NotificationQueue:
    """A queue whose pauses last until a test lets their time pass."""
    fake_clock.hold()
    loop = asyncio.get_running_loop()
    loop.run_in_executor = fake_clock.counting(loop.run_in_executor)  # type: ignore[method-assign]
    return NotificationQueue(database.record)


async def test_a_thousand_notifications_in_a_second_are_two_transactions(
    records: NotificationQueue, database: Database, fake_clock: FakeClock
) -> None:
    for _ in range(500):
        records.put(ORDERS)
    await fake_clock.settle()
    for _ in range(500):
        records.put(ORDERS)
    await fake_clock.elapse(PAUSE_SECONDS - 0.1)
    assert database.recorded == [RECORDED]
    await fake_clock.elapse(1000)

    assert database.recorded == [RECORDED] * 2


async def test_a_notification_during_a_transaction_causes_another_one(
    records: NotificationQueue, fake_clock: FakeClock
) -> None:
    """The transaction may have looked before the message was there."""
    started = []

    def record(uri: str, extra: dict[str, Any]) -> Outcome:
        if not started:
            loop.call_soon_threadsafe(queue.put, ORDERS)
        started.append(uri)
        return Outcome.WAITING

    loop, queue = asyncio.get_running_loop(), NotificationQueue(record)
    queue.put(ORDERS)
    await fake_clock.elapse(PAUSE_SECONDS)

    assert started == [ORDERS.uri] * 2


@pytest.mark.usefixtures("records")
async def test_inboxes_do_not_wait_for_each_other_and_threads_are_few(fake_clock: FakeClock) -> None:
    threads: dict[int, list[str]] = {}
    together = threading.Barrier(MOST_THREADS)

    def record(uri: str, extra: dict[str, Any]) -> Outcome:
        together.wait(30)
        threads.setdefault(threading.get_ident(), []).append(uri)
        return Outcome.RECORDED

    queue = NotificationQueue(record)
    inboxes = [NotifiedInbox("workflow_default", f"inbox-{n}") for n in range(10 * MOST_THREADS)]
    for each in inboxes:
        queue.put(each)
    await fake_clock.settle()

    assert len(threads) == MOST_THREADS
    assert sorted(chain(*threads.values())) == sorted(each.uri for each in inboxes)


async def test_while_the_database_is_away_the_notification_is_kept(
    records: NotificationQueue, database: Database, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    database.outcomes = [OSError("password=hunter2")] * 10
    records.put(ORDERS)
    await fake_clock.elapse(10 * LONGEST_BACKOFF_SECONDS)

    assert len(database.recorded) == 11
    lines = [(each.levelname, each.getMessage()) for each in caplog.records if each.name.endswith("notify")]
    assert lines == [
        (
            "WARNING",
            "Inbox orders was notified, but its asset event could not be recorded (OSError); retrying",
        ),
        ("INFO", "Inbox orders was notified; the DAG that is scheduled on its asset runs"),
    ]


@pytest.mark.parametrize(
    ("outcome", "text"),
    [(Outcome.PAUSED, "is paused: unpause it"), (Outcome.NO_DAG, f"on its asset {ORDERS.uri}: deploy one")],
)
async def test_for_want_of_a_dag_one_warning_is_logged(
    records: NotificationQueue,
    database: Database,
    fake_clock: FakeClock,
    caplog: pytest.LogCaptureFixture,
    outcome: Outcome,
    text: str,
) -> None:
    database.outcomes = [outcome] * 3
    for _ in range(3):
        records.put(ORDERS)
        await fake_clock.elapse(PAUSE_SECONDS)

    (line,) = [each for each in caplog.records if each.name.endswith("notify")]
    assert line.levelname == "WARNING"
    assert text in line.getMessage()


async def test_a_run_that_waits_already_is_not_worth_a_line(
    records: NotificationQueue, database: Database, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    database.outcomes = [Outcome.WAITING]
    records.put(ORDERS)
    await fake_clock.elapse(PAUSE_SECONDS)

    assert database.recorded == [RECORDED]
    assert [each for each in caplog.records if each.name.endswith("notify")] == []
