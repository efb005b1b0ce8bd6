"""Access tokens: requested, cached, renewed, shared, and rejected."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from airflow_provider_workflow.client import api, async_client, errors
from airflow_provider_workflow.client.aiohttp_transport import shared_session
from airflow_provider_workflow.client.async_client import AsyncWorkflowClient
from airflow_provider_workflow.client.errors import AuthenticationError, TransportError
from airflow_provider_workflow.client.exchange import NEW_TOKEN_PAUSE_SECONDS
from airflow_provider_workflow.client.http_messages import Answer, Request
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.sync_client import WorkflowClient
from airflow_provider_workflow.client.tokens import TOKENS, AccessToken, TokenCache, token_key
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.client.calls import make
from tests.unit.client.conftest import MakeSender
from tests.unit.client.endpoint import SETTINGS, Endpoint, UnansweredError, ok
from tests.unit.client.senders import Sender
from tests.unit.fake_clock import START, FakeClock

HOURS_10 = 36000
MANY = 20
DOWN: list[Answer | Exception] = [
    TransportError("down", sent=False),
    Answer(503, {}, b""),
    Answer(429, {}, b""),
]
ONE = {"access_token": "one", "expires_in": HOURS_10}


@pytest.fixture
def endpoint(cache: TokenCache) -> Endpoint:
    return Endpoint(cache)


def is_asked(endpoint: Endpoint, **options: Any) -> bool:
    """Whether a client sends a request for a token."""
    with pytest.raises(UnansweredError):
        endpoint.token(**options)
    return True


class WaitingCallers:
    """
    Clients of an event loop, whose requests for tokens wait until a test answers them.

    :param cache: their access tokens.
    """

    def __init__(self, cache: TokenCache, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cache = cache
        self.waiting: list[asyncio.Future[Answer]] = []
        monkeypatch.setattr(async_client, "exchange", self._exchange)

    async def _exchange(self, session: Any, request: Request) -> Answer:
        self.waiting.append(asyncio.get_running_loop().create_future())
        return await self.waiting[-1]

    async def two(self) -> list[asyncio.Task[tuple[AccessToken, bool]]]:
        """A caller that requests a token, and another one that waits for it."""
        client = AsyncWorkflowClient(SETTINGS, Mock(), tokens=self.cache)
        tasks = [asyncio.ensure_future(client.token_of("external")) for _ in range(2)]
        await turns()
        assert len(self.waiting) == 1
        assert not any(task.done() for task in tasks)
        return tasks

    def answer(self, reply: Answer | BaseException) -> None:
        """Answer the last request."""
        if isinstance(reply, BaseException):
            self.waiting[-1].set_exception(reply)
        else:
            self.waiting[-1].set_result(reply)


async def turns() -> None:
    """Let all tasks go on until they wait."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_a_token_that_was_just_issued_is_not_renewed_but_sent_once_more_after_a_moment(
    send: Sender, emulator: EmulatorServer
) -> None:
    emulator.fault("status", operation="get_inbox", times=None, status=401)
    with pytest.raises(errors.AuthenticationError):
        send(make("get_inbox"))
    assert (emulator.count("token"), emulator.count("get_inbox")) == (1, 2)
    assert send.naps == [NEW_TOKEN_PAUSE_SECONDS]
    assert 1 <= NEW_TOKEN_PAUSE_SECONDS <= 2


@pytest.mark.parametrize("name", ["get_inbox", "lease_messages", "unenroll_promotion"])
@pytest.mark.parametrize("refusal", [{"status": 401}, {"status": 400, "code": "unauthenticated"}])
def test_a_service_that_accepts_a_new_token_a_second_later_is_no_error(
    name: str, refusal: dict[str, Any], send: Sender, emulator: EmulatorServer
) -> None:
    operation = {"lease_messages": "lease", "unenroll_promotion": "unenroll"}.get(name, name)
    emulator.fault("status", operation=operation, times=1, **refusal)
    call = make(name)
    if name != "unenroll_promotion":
        inbox_id = emulator.open_inbox("orders")
        call = api.get_inbox(inbox_id) if name == "get_inbox" else api.lease_messages(inbox_id)
    send(call)
    assert emulator.count("token") == 1
    assert send.naps == [NEW_TOKEN_PAUSE_SECONDS]


def test_a_client_in_a_hurry_does_not_wait_until_a_new_token_is_accepted(
    settings: Settings, emulator: EmulatorServer, make_send: MakeSender
) -> None:
    emulator.fault("status", operation="get_inbox", times=None, status=401)
    send = make_send(settings, longest_wait=0)
    with pytest.raises(errors.AuthenticationError):
        send(make("get_inbox"))
    assert (emulator.count("get_inbox"), send.naps) == (1, [])


def in_threads(settings: Settings, tokens: TokenCache) -> list[Any]:
    together = threading.Barrier(MANY)

    def one(_: int) -> Any:
        with WorkflowClient(settings, tokens=tokens) as client:
            together.wait(10)
            return client.send(api.list_inboxes())

    with ThreadPoolExecutor(MANY) as pool:
        return list(pool.map(one, range(MANY)))


def in_tasks(settings: Settings, tokens: TokenCache) -> list[Any]:
    async def send() -> list[Any]:
        async with shared_session(settings.tls(), 0) as session:
            client = AsyncWorkflowClient(settings, session, tokens=tokens)
            return await asyncio.gather(*(client.send(api.list_inboxes()) for _ in range(MANY)))

    return asyncio.run(send())


@pytest.mark.specification("11.4 expired", "11.2 400 unauthenticated")
@pytest.mark.parametrize("send_many", [in_threads, in_tasks])
def test_many_callers_ask_for_one_token_and_renew_it_once_when_it_is_refused(
    send_many: Callable[[Settings, TokenCache], list[Any]],
    settings: Settings,
    cache: TokenCache,
    emulator: EmulatorServer,
) -> None:
    emulator.fault("slow", operation="token", seconds=0.1)
    for count in (1, 2):
        assert all("results" in page for page in send_many(settings, cache))
        assert emulator.count("token") == count
        emulator.store.tokens.expire()


def test_threads_and_tasks_share_a_renewal(
    settings: Settings, cache: TokenCache, emulator: EmulatorServer
) -> None:
    emulator.fault("hold", operation="token")
    with ThreadPoolExecutor(2) as pool:
        thread = pool.submit(lambda: WorkflowClient(settings, tokens=cache).send(api.list_inboxes()))
        emulator.wait_until_held()
        loop = pool.submit(in_tasks, settings, cache)
        emulator.release()
        assert thread.result(10)["results"] == []
        assert len(loop.result(10)) == MANY
    assert emulator.count("token") == 1


async def test_a_task_that_is_cancelled_while_renewing_leaves_the_renewal_to_others(
    settings: Settings, emulator: EmulatorServer
) -> None:
    emulator.fault("hold", operation="token", times=1)
    tokens = TokenCache()
    async with shared_session(settings.tls(), 0) as session:
        client = AsyncWorkflowClient(settings, session, tokens=tokens)
        owner = asyncio.create_task(client.send(api.list_inboxes()))
        await asyncio.to_thread(emulator.wait_until_held)
        waiters = [asyncio.create_task(client.send(api.list_inboxes())) for _ in range(3)]
        await asyncio.sleep(0)
        waiters[0].cancel()
        owner.cancel()
        pages = await asyncio.gather(*waiters[1:])
    emulator.release(drop=True)
    assert [page["results"] for page in pages] == [[], []]
    assert emulator.count("token") == 2


async def test_each_caller_that_waits_for_a_renewal_that_is_refused_is_named_in_its_own_error(
    settings: Settings, emulator: EmulatorServer, caplog: pytest.LogCaptureFixture
) -> None:
    emulator.fault("hold", operation="token", times=1, when="after")
    emulator.store.configure(client_secret="regenerated")
    cache = TokenCache()
    async with shared_session(settings.tls(), 0) as session:
        users = [replace(settings, connection_id=name) for name in ("orders", "billing", "cancelled")]
        clients = [AsyncWorkflowClient(user, session, tokens=cache) for user in users]
        tasks = [asyncio.create_task(client.send(api.list_inboxes())) for client in clients]
        await asyncio.to_thread(emulator.wait_until_held)
        tasks[2].cancel()
        emulator.release()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    del tasks
    assert [type(error).__name__ for error in outcomes] == ["AuthenticationError"] * 2 + ["CancelledError"]
    orders, billing = map(str, outcomes[:2])
    assert "rejects the credentials of the connection 'orders' (" in orders
    assert billing == orders.replace("orders", "billing")
    assert emulator.count("token") == 1, "who waits has the same error, and asks for nothing"
    assert "never retrieved" not in caplog.text


@pytest.mark.parametrize(
    ("life", "seconds"),
    [
        (HOURS_10, HOURS_10 - 300),
        (60, 30),
        ("36000.0", HOURS_10 - 300),
        (10**400, 30 * 86400 - 300),
        # An hour is assumed where the life is not told.
        *((untold, 3300) for untold in (None, 0, "soon", True, float("nan"))),
    ],
)
def test_a_token_is_renewed_five_minutes_early_or_half_way(
    endpoint: Endpoint, fake_clock: FakeClock, life: Any, seconds: float
) -> None:
    assert endpoint.token(ok({**ONE, "expires_in": life})) == "one"
    assert endpoint.token() == "one"
    fake_clock.advance(seconds - 1)
    assert endpoint.token() == "one"
    fake_clock.advance(1)
    assert is_asked(endpoint)


def test_the_life_of_a_token_counts_from_when_it_was_asked_for(
    endpoint: Endpoint, fake_clock: FakeClock
) -> None:
    endpoint.token(lambda: fake_clock.advance(100) or ok(ONE))
    fake_clock.advance(HOURS_10 - 300 - 100 - 1)
    assert endpoint.token() == "one"
    fake_clock.advance(1)
    assert is_asked(endpoint)


@pytest.mark.parametrize("fault", DOWN)
async def test_while_the_endpoint_is_down_a_token_that_is_due_is_used_on_and_renewed_again_after_30_s(
    endpoint: Endpoint, fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch, fault: Answer | Exception
) -> None:
    endpoint.token(ok(ONE))
    fake_clock.advance(HOURS_10 - 200)
    callers = WaitingCallers(endpoint.cache, monkeypatch)
    tasks = await callers.two()
    callers.answer(fault)
    assert [token.value for token, _ in await asyncio.gather(*tasks)] == ["one", "one"]
    assert len(callers.waiting) == 1
    fake_clock.advance(29)
    assert endpoint.token() == "one"
    fake_clock.advance(1)
    assert is_asked(endpoint)


@pytest.mark.parametrize(
    ("seconds_left", "fault", "kind"),
    [(200, Answer(401, {}, b""), AuthenticationError), (0, DOWN[0], TransportError)],
)
def test_a_token_is_not_used_on_where_its_renewal_is_refused_or_it_has_expired(
    endpoint: Endpoint, fake_clock: FakeClock, seconds_left: int, fault: Any, kind: type[Exception]
) -> None:
    endpoint.token(ok(ONE))
    fake_clock.advance(HOURS_10 - seconds_left)
    with pytest.raises(kind):
        endpoint.token(fault)


@pytest.mark.parametrize("value", [None, "", 7, "a\r\nb", "é b"])
def test_an_answer_without_a_usable_token_is_refused(endpoint: Endpoint, value: Any) -> None:
    with pytest.raises(AuthenticationError, match="without a usable access_token"):
        endpoint.token(ok({"access_token": value}))
    assert is_asked(endpoint)


def test_a_refused_token_is_dropped_unless_it_was_renewed_meanwhile(endpoint: Endpoint) -> None:
    key, cache = token_key(SETTINGS, "external"), endpoint.cache
    cache.put(key, AccessToken("new", START + 60, START + 120))
    cache.drop(key, "old")
    assert endpoint.token() == "new"
    cache.drop(key, "new")
    assert is_asked(endpoint)
    assert cache.rejected == {}, "only those of users are looked up there"


USER = {"grant": "refresh_token", "connection_id": "a"}


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ({}, {"timeout": 5.0, "connection_id": "other"}, True),
        ({}, {"client_secret": "another"}, False),
        ({}, {"client_id": "another"}, False),
        ({}, {"token_url": "https://another.example.com/token"}, False),
        ({}, USER, False),
        (USER, {**USER, "connection_id": "b"}, False),
    ],
)
def test_which_connections_share_a_token(first: dict[str, Any], second: dict[str, Any], same: bool) -> None:
    one, other = (replace(SETTINGS, **changes) for changes in (first, second))
    assert (token_key(one, "external") == token_key(other, "external")) is same
    assert token_key(one, "external") != token_key(other, "promotions:write")
    assert "a-secret" not in "".join(token_key(one, "external")), "its digest is part of the key"


def test_a_forked_child_does_not_wait_for_a_renewal_of_its_parent() -> None:
    endpoint = Endpoint(TOKENS)

    def fork() -> Answer:
        """While the parent requests a token, the child does so too."""
        pid = os.fork()
        if pid == 0:
            endpoint.requests = []
            with contextlib.suppress(UnansweredError):
                endpoint.token()
            os._exit(0 if len(endpoint.requests) == 1 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        return ok(ONE)

    assert endpoint.token(fork) == "one"


class KillError(BaseException):
    """What a signal raises in a task that is being ended."""


@pytest.mark.parametrize("end", [KeyboardInterrupt, KillError])
def test_a_caller_that_is_interrupted_leaves_the_renewal_to_others_and_its_client_stays_usable(
    endpoint: Endpoint, end: type[BaseException]
) -> None:
    client = endpoint.client()
    endpoint.replies = [end()]
    with pytest.raises(end) as interrupted:
        client.send(api.list_inboxes())
    assert interrupted.traceback  # whose frames hold the coroutine
    endpoint.replies = [ok(ONE), ok({"results": [], "next": None})]
    assert client.send(api.list_inboxes())["results"] == []


async def test_a_programming_error_strands_nobody(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    callers = WaitingCallers(endpoint.cache, monkeypatch)
    first, second = await callers.two()
    callers.answer(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        await first
    await turns()
    assert len(callers.waiting) == 2, "the second caller sends a request of its own"
    callers.answer(ok(ONE))
    assert (await second)[0].value == "one"
