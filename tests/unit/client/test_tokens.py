"""Access tokens: requested, cached, renewed, shared, and rejected."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import weakref
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import Mock

import pytest

from airflow_provider_workflow.client import api, errors
from airflow_provider_workflow.client.call import Call
from airflow_provider_workflow.client.client import AsyncWorkflowClient, WorkflowClient
from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    RateLimitError,
    ServerError,
    TransportError,
)
from airflow_provider_workflow.client.over_aiohttp import shared_session
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.tokens import (
    TOKENS,
    AccessToken,
    TokenCache,
    access_token,
    issued_token,
    token_key,
)
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.client.calls import make, operation
from tests.unit.client.conftest import MakeSender, settings_of
from tests.unit.client.senders import Sender
from tests.unit.fake_clock import START, FakeClock

SETTINGS = Settings("https://api.example.com", "an-id", "a-secret", "https://api.example.com/token")
HOURS_10 = 36000
DOWN = [
    TransportError("down", sent=False),
    ServerError("down", status=503),
    RateLimitError("busy", status=429),
]


Exchange = Generator[Any, Any, AccessToken]


def asks(cache: TokenCache, settings: Settings = SETTINGS, scope: str = "external") -> Exchange:
    return access_token(cache, token_key(settings, scope), None)


def token_at(step: Callable[[], Any]) -> str:
    """The token that an exchange ends with at a step."""
    with pytest.raises(StopIteration) as end:
        step()
    return str(end.value.value.value)


def issue(exchange: Exchange, value: str, **more: Any) -> str:
    """Answer the token call that an exchange waits for; the token that it ends with."""
    return token_at(lambda: exchange.send({"access_token": value, "expires_in": HOURS_10, **more}))


def at_once(exchange: Exchange) -> str:
    """The token of an exchange that needs no step."""
    return token_at(lambda: next(exchange))


def holds_one(cache: TokenCache, **more: Any) -> None:
    first = asks(cache)
    next(first)
    assert issue(first, "one", **more) == "one"


MANY = 20
REFUSALS: dict[str, dict[str, Any]] = {
    "400 unauthenticated": {"status": 400, "code": "unauthenticated"},
    "401": {"status": 401, "code": "expired"},
    "401 without a body": {"status": 401, "text": ""},
}


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("name", ["get_inbox", "lease_messages"])
def test_a_token_that_is_refused_is_renewed_once(
    refusal: str, name: str, send: Sender, emulator: EmulatorServer
) -> None:
    inbox_id = emulator.open_inbox("orders")
    send(api.list_inboxes())
    emulator.fault("status", operation=operation(name), **REFUSALS[refusal])
    send(make(name, inbox_id))
    assert (emulator.count("token"), emulator.count(operation(name))) == (2, 2)
    assert send.naps == []


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_token_that_is_refused_again_is_an_error(
    refusal: str, send: Sender, emulator: EmulatorServer
) -> None:
    send(api.list_inboxes())
    emulator.fault("status", operation="get_inbox", times=None, **REFUSALS[refusal])
    with pytest.raises(errors.AuthenticationError):
        send(make("get_inbox"))
    assert (emulator.count("token"), emulator.count("get_inbox")) == (2, 2)


def test_a_token_that_was_just_issued_is_not_renewed(send: Sender, emulator: EmulatorServer) -> None:
    emulator.fault("status", operation="get_inbox", times=None, status=401)
    with pytest.raises(errors.AuthenticationError):
        send(make("get_inbox"))
    assert (emulator.count("token"), emulator.count("get_inbox")) == (1, 1)


def test_a_refusal_that_is_no_matter_of_the_token_renews_nothing(
    send: Sender, emulator: EmulatorServer
) -> None:
    send(api.list_inboxes())
    for status in (400, 403, 404):
        emulator.fault("status", operation="get_inbox", status=status)
        with pytest.raises(errors.WorkflowAPIError):
            send(make("get_inbox"))
    assert emulator.count("token") == 1


@pytest.mark.specification("11.4 expired", "11.2 400 unauthenticated")
def test_a_token_that_ran_out_at_the_service_is_renewed(send: Sender, emulator: EmulatorServer) -> None:
    inbox_id = emulator.open_inbox("orders")
    send(api.get_inbox(inbox_id))
    emulator.store.tokens.expire()
    assert send(api.get_inbox(inbox_id))["name"] == "orders"
    assert emulator.count("token") == 2


@pytest.mark.specification("14.4 scope", "11.2 401 invalid_audience")
def test_a_token_of_another_scope_is_refused_by_name(make_send: MakeSender, emulator: EmulatorServer) -> None:
    send = make_send(settings_of(emulator, scope="workflow"))
    with pytest.raises(errors.AuthenticationError) as raised:
        send(api.list_inboxes())
    assert raised.value.code == "invalid_audience"


def test_every_new_token_is_told_once(
    make_send: MakeSender, settings: Settings, emulator: EmulatorServer
) -> None:
    told: list[str] = []
    send = make_send(settings, on_token=told.append)
    for _ in range(3):
        send(api.list_inboxes())
    send(api.unenroll_promotion("e"))
    assert len(set(told)) == len(told) == 2


@pytest.mark.specification("14.1 client identifier")
def test_guess_templates_and_token_calls_need_no_access_token(send: Sender, emulator: EmulatorServer) -> None:
    send(make("guess"))
    send(make("list_templates"))
    assert emulator.count("token") == 0


def in_threads(settings: Settings, tokens: TokenCache, call: Any) -> list[Any]:
    together = threading.Barrier(MANY)

    def one(_: int) -> Any:
        with WorkflowClient(settings, tokens=tokens) as client:
            together.wait(10)
            try:
                return client.send(call)
            except errors.WorkflowError as error:
                return error

    with ThreadPoolExecutor(MANY) as pool:
        return list(pool.map(one, range(MANY)))


async def in_tasks(settings: Settings, tokens: TokenCache, call: Any) -> list[Any]:
    async with shared_session(settings.certificates(), 0) as session:
        client = AsyncWorkflowClient(settings, session, tokens=tokens)
        return await asyncio.gather(*(client.send(call) for _ in range(MANY)), return_exceptions=True)


@pytest.fixture(params=["threads", "tasks"])
def many(request: pytest.FixtureRequest, settings: Settings, fake_clock: FakeClock) -> Any:
    """Sends a call many times at once."""
    tokens = TokenCache()
    if request.param == "threads":
        return lambda call: in_threads(settings, tokens, call)
    return lambda call: asyncio.run(in_tasks(settings, tokens, call))


def test_many_callers_ask_for_one_token(many: Any, emulator: EmulatorServer) -> None:
    emulator.fault("slow", operation="token", seconds=0.1)
    assert all("results" in page for page in many(api.list_inboxes()))
    assert emulator.count("token") == 1


def test_many_callers_renew_a_refused_token_once(many: Any, emulator: EmulatorServer) -> None:
    many(api.list_inboxes())
    emulator.store.tokens.expire()
    assert all("results" in page for page in many(api.list_inboxes()))
    assert emulator.count("token") == 2


def test_many_callers_share_one_refusal(many: Any, emulator: EmulatorServer) -> None:
    emulator.fault("slow", operation="token", seconds=0.1, times=1)
    emulator.store.configure(client_secret="regenerated")
    answers = many(api.list_inboxes())
    assert all(isinstance(each, errors.AuthenticationError) for each in answers)
    assert emulator.count("token") < MANY / 2  # a straggler may come after the renewal that others shared


def test_threads_and_tasks_share_a_renewal(
    settings: Settings, emulator: EmulatorServer, fake_clock: FakeClock
) -> None:
    emulator.fault("hold", operation="token")
    tokens = TokenCache()
    with ThreadPoolExecutor(2) as pool:
        thread = pool.submit(lambda: WorkflowClient(settings, tokens=tokens).send(api.list_inboxes()))
        emulator.wait_until_held()
        loop = pool.submit(lambda: asyncio.run(in_tasks(settings, tokens, api.list_inboxes())))
        emulator.release()
        assert thread.result(10)["results"] == []
        assert len(loop.result(10)) == MANY
    assert emulator.count("token") == 1


async def test_a_task_that_is_cancelled_while_renewing_leaves_the_renewal_to_others(
    settings: Settings, emulator: EmulatorServer
) -> None:
    emulator.fault("hold", operation="token", times=1)
    tokens = TokenCache()
    async with shared_session(settings.certificates(), 0) as session:
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


async def test_waiters_of_a_failed_renewal_leave_nothing_unretrieved(
    settings: Settings, emulator: EmulatorServer, caplog: pytest.LogCaptureFixture
) -> None:
    emulator.fault("hold", operation="token", times=1, when="after")
    emulator.store.configure(client_secret="regenerated")
    async with shared_session(settings.certificates(), 0) as session:
        client = AsyncWorkflowClient(settings, session, tokens=TokenCache())
        tasks = [asyncio.create_task(client.send(api.list_inboxes())) for _ in range(4)]
        await asyncio.to_thread(emulator.wait_until_held)
        tasks[3].cancel()
        emulator.release()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    del tasks
    assert [type(each).__name__ for each in ended] == ["AuthenticationError"] * 3 + ["CancelledError"]
    assert "never retrieved" not in caplog.text


@pytest.mark.parametrize(
    ("life", "seconds"),
    [
        (HOURS_10, HOURS_10 - 300),
        (60, 30),
        # An hour is assumed where the life is not told.
        *((given, 3300) for given in (None, 0, -5, "soon", True, float("nan"), [], {})),
    ],
)
def test_a_token_is_renewed_five_minutes_early_or_half_way(
    cache: TokenCache, fake_clock: FakeClock, life: Any, seconds: float
) -> None:
    holds_one(cache, expires_in=life)
    assert at_once(asks(cache)) == "one"
    fake_clock.advance(seconds - 1)
    assert at_once(asks(cache)) == "one"
    fake_clock.advance(1)
    assert isinstance(next(asks(cache)), Call)


def test_the_life_of_a_token_counts_from_when_it_was_asked_for(
    cache: TokenCache, fake_clock: FakeClock
) -> None:
    first = asks(cache)
    next(first)
    fake_clock.advance(100)
    issue(first, "one")
    fake_clock.advance(HOURS_10 - 300 - 100)
    assert isinstance(next(asks(cache)), Call)


@pytest.mark.parametrize("fault", DOWN)
def test_a_token_that_is_due_is_used_on_while_the_endpoint_is_down(
    cache: TokenCache, fake_clock: FakeClock, fault: Exception
) -> None:
    holds_one(cache)
    fake_clock.advance(HOURS_10 - 200)
    renewing, waiting = asks(cache), asks(cache)
    next(renewing)
    next(waiting)
    assert token_at(lambda: renewing.throw(fault)) == "one"
    assert token_at(lambda: waiting.send(None)) == "one"


def test_a_token_that_is_due_is_not_used_on_where_its_renewal_is_refused(
    cache: TokenCache, fake_clock: FakeClock
) -> None:
    holds_one(cache)
    fake_clock.advance(HOURS_10 - 200)
    renewing = asks(cache)
    next(renewing)
    with pytest.raises(AuthenticationError):
        renewing.throw(AuthenticationError("no", status=401))


def test_an_endpoint_that_is_down_is_not_asked_by_every_call(
    cache: TokenCache, fake_clock: FakeClock
) -> None:
    holds_one(cache)
    fake_clock.advance(HOURS_10 - 200)
    renewing = asks(cache)
    next(renewing)
    with pytest.raises(StopIteration):
        renewing.throw(DOWN[0])
    fake_clock.advance(29)
    assert at_once(asks(cache)) == "one"
    fake_clock.advance(1)
    assert isinstance(next(asks(cache)), Call)


@pytest.mark.parametrize("fault", DOWN)
def test_an_expired_token_is_not_used_on(cache: TokenCache, fake_clock: FakeClock, fault: Exception) -> None:
    holds_one(cache)
    fake_clock.advance(HOURS_10)
    renewing = asks(cache)
    next(renewing)
    with pytest.raises(type(fault)):
        renewing.throw(fault)


@pytest.mark.parametrize("given", [10**400, float("inf"), 1e300, "36000", "36000.0"])
def test_an_odd_life_is_no_crash(cache: TokenCache, given: Any) -> None:
    holds_one(cache, expires_in=given)
    assert at_once(asks(cache)) == "one"


@pytest.mark.parametrize(
    "answer",
    [{}, {"access_token": ""}, {"access_token": 7}, {"access_token": "a\r\nb"}, {"access_token": "é b"}],
)
def test_an_answer_without_a_usable_token_is_refused(cache: TokenCache, answer: Any) -> None:
    first = asks(cache)
    next(first)
    with pytest.raises(AuthenticationError, match="without a usable access_token"):
        first.send(answer)
    assert isinstance(next(asks(cache)), Call)


def test_a_refused_token_is_dropped_unless_it_was_renewed_meanwhile(cache: TokenCache) -> None:
    key = token_key(SETTINGS, "external")
    cache.put(key, issued_token({"access_token": "new"}, START))
    cache.drop(key, "old")
    assert at_once(asks(cache)) == "new"
    cache.drop(key, "new")
    assert isinstance(next(asks(cache)), Call)


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({}, True),
        ({"timeout": 5.0, "connection_id": "other"}, True),
        ({"client_secret": "another"}, False),
        ({"client_id": "another"}, False),
        ({"token_url": "https://another.example.com/token"}, False),
        ({"grant": "refresh_token"}, False),
    ],
)
def test_which_connections_share_a_token(changes: dict[str, Any], same: bool) -> None:
    other = Settings(**{**vars(SETTINGS), **changes})
    assert (token_key(SETTINGS, "external") == token_key(other, "external")) is same
    assert token_key(SETTINGS, "external") != token_key(other, "promotions:write")


def test_user_tokens_belong_to_their_connection() -> None:
    mine, yours = (
        Settings(**{**vars(SETTINGS), "grant": "refresh_token", "connection_id": name}) for name in ("a", "b")
    )
    assert token_key(mine, "external") != token_key(yours, "external")


def test_the_key_of_a_token_does_not_hold_the_secret() -> None:
    assert not any("a-secret" in part for part in token_key(SETTINGS, "external"))


def test_a_forked_child_does_not_wait_for_a_renewal_of_its_parent() -> None:
    owner = asks(TOKENS)
    next(owner)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if isinstance(next(asks(TOKENS)), Call) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    owner.close()


def test_a_cache_that_nobody_uses_any_more_is_freed() -> None:
    # test_connection makes one of its own each time.
    gone = weakref.ref(TokenCache())
    gc.collect()
    assert gone() is None


def test_the_first_asks_and_the_next_uses_what_it_got(cache: TokenCache) -> None:
    first = asks(cache)
    step = next(first)
    assert isinstance(step, Call)
    assert step.form == {"grant_type": "client_credentials", "scope": "external"}
    assert issue(first, "one") == "one"
    assert at_once(asks(cache)) == "one"


def test_whoever_comes_second_waits_and_goes_on_with_the_token_of_the_first(cache: TokenCache) -> None:
    first, second = asks(cache), asks(cache)
    next(first)
    renewal = next(second)
    assert not renewal.done()
    issue(first, "one")
    assert renewal.result(0) is None
    assert token_at(lambda: second.send(None)) == "one"


def test_who_waits_takes_over_from_an_owner_that_was_cancelled(cache: TokenCache) -> None:
    first, second, third = asks(cache), asks(cache), asks(cache)
    next(first)
    renewal = next(second)
    next(third)
    first.close()
    assert renewal.result(0) is None
    assert isinstance(second.send(None), Call)
    assert not isinstance(third.send(None), Call)
    assert issue(second, "two") == "two"


def test_a_caller_that_is_interrupted_leaves_the_renewal_to_others(
    cache: TokenCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WorkflowClient, "exchange", Mock(side_effect=KeyboardInterrupt))
    with WorkflowClient(SETTINGS, tokens=cache) as client, pytest.raises(KeyboardInterrupt) as interrupted:
        client.send(api.list_inboxes())
    assert interrupted.traceback  # whose frames hold the exchange
    assert isinstance(next(asks(cache)), Call)


def test_a_waiter_that_is_cancelled_takes_the_renewal_from_nobody(cache: TokenCache) -> None:
    first, second = asks(cache), asks(cache)
    next(first)
    renewal = next(second)
    assert not renewal.cancel()
    second.close()
    assert issue(first, "one") == "one"


def test_a_failure_is_shared_by_all_who_wait_for_it(cache: TokenCache) -> None:
    first, second = asks(cache), asks(cache)
    next(first)
    renewal = next(second)
    refused = AuthenticationError("wrong secret", status=401)
    with pytest.raises(AuthenticationError):
        first.throw(refused)
    assert renewal.exception(0) is refused
    with pytest.raises(AuthenticationError):
        second.throw(renewal.exception(0))
    assert isinstance(next(asks(cache)), Call)


def test_a_programming_error_strands_nobody(cache: TokenCache) -> None:
    first, second = asks(cache), asks(cache)
    next(first)
    renewal = next(second)
    with pytest.raises(ZeroDivisionError):
        first.throw(ZeroDivisionError())
    assert renewal.done()
    assert isinstance(second.send(None), Call)
