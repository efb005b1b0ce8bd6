"""User tokens: what is read, sent and stored, in which order, and how tokens are lost."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.call import Call, CarryThrough, InThread, Pause
from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    ConfigurationError,
    LoginRequiredError,
    TokenStoreError,
    TransportError,
    WorkflowError,
)
from airflow_provider_workflow.client.over_aiohttp import AsyncWorkflowClient, shared_session
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.tokens import Key, TokenCache, access_token, token_key, token_of_user
from airflow_provider_workflow.client.user_tokens import UserTokens
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.traces import told
from tests.unit.client.conftest import MakeSender, settings_of
from tests.unit.client.senders import SyncSender
from tests.unit.client.stores import MemoryStore, logged_in
from tests.unit.client.test_tokens import DOWN, SETTINGS, at_once, token_at
from tests.unit.fake_clock import START as NOW
from tests.unit.fake_clock import FakeClock

pytestmark = pytest.mark.usefixtures("fake_clock")

USER = Settings(**{**vars(SETTINGS), "grant": "refresh_token", "connection_id": "mine"})
KEY = token_key(USER, "external")
FRESH = UserTokens("access-1", "refresh-1", NOW + 900, NOW + 1200)
DUE = UserTokens("access-1", "refresh-1", NOW - 1, NOW + 299)
OVER = UserTokens("access-1", "refresh-1", NOW - 400, NOW - 100)
THEIRS = UserTokens("access-2", "refresh-2", NOW + 900, NOW + 1200)
ANSWER = {"access_token": "access-2", "refresh_token": "refresh-2", "expires_in": 36000}
OURS = UserTokens("access-2", "refresh-2", NOW + 35700, NOW + 36000)

NO_USE = [
    AuthenticationError("no", status=200, code="invalid_grant"),
    AuthenticationError("used", status=400, code="invalid_grant"),
    AuthenticationError("used", status=400, detail="used"),
    TransportError("cut", sent=True),
]

STORE = MemoryStore()
READ = InThread(STORE.read)

Exchange = Generator[Any, Any, Any]


def begins(cache: TokenCache, key: Key = KEY) -> Exchange:
    """The exchange that a caller has to carry through."""
    step = next(access_token(cache, key, STORE))
    assert isinstance(step, CarryThrough)
    return step.exchange


def asks(cache: TokenCache, stored: UserTokens | None, key: Key = KEY) -> tuple[Exchange, Any]:
    """An exchange that found these tokens in the store, and its next step."""
    exchange = begins(cache, key)
    assert next(exchange) == READ
    return exchange, exchange.send(stored)


def ends(exchange: Exchange, answer: Any) -> str:
    return token_at(lambda: exchange.send(answer))


def waits_in_vain(exchange: Exchange, step: Any) -> tuple[LoginRequiredError, float]:
    """The error that an exchange ends with when nobody stores anything new, and how long it waited."""
    waited = 0.0
    while True:
        assert isinstance(step, Pause)
        waited += step.seconds
        assert exchange.send(None) == READ
        try:
            step = exchange.send(DUE)
        except LoginRequiredError as error:
            return error, waited


@pytest.mark.specification("14.3 refresh")
@pytest.mark.parametrize("stored", [DUE, OVER])
def test_tokens_are_stored_before_they_are_used(cache: TokenCache, stored: UserTokens) -> None:
    exchange, step = asks(cache, stored)
    assert isinstance(step, Call)
    assert step.form == {"grant_type": "refresh_token", "refresh_token": "refresh-1"}
    assert not step.repeatable
    assert exchange.send(ANSWER) == READ
    before = cache.usable(KEY)
    assert before is None or before.value == "access-1"
    write = exchange.send(stored)
    assert isinstance(write, InThread)
    assert write.run.args == (OURS,)
    assert ends(exchange, None) == "access-2"


def test_a_process_that_finds_due_tokens_stored_keeps_to_the_stored_times(
    cache: TokenCache, fake_clock: FakeClock
) -> None:
    with pytest.raises(StopIteration):
        asks(cache, FRESH)
    fake_clock.advance(899)
    assert at_once(access_token(cache, KEY, STORE)) == "access-1"
    fake_clock.advance(1)
    assert next(begins(cache)) == READ


def test_a_token_that_was_refused_is_replaced_by_one_that_another_stored(cache: TokenCache) -> None:
    cache.put(KEY, token_of_user(FRESH, issued=False))
    cache.drop(KEY, "access-1")
    assert token_at(lambda: asks(cache, THEIRS)) == "access-2"


@pytest.mark.parametrize(
    "fault",
    [
        *DOWN,
        *(AuthenticationError("no", status=s) for s in (400, 401)),
        AuthenticationError("no", status=200, code="temporarily_unavailable"),
    ],
)
def test_what_used_nothing_up_is_no_reason_to_log_in(cache: TokenCache, fault: WorkflowError) -> None:
    exchange, _ = asks(cache, OVER)
    with pytest.raises(type(fault)) as raised:
        exchange.throw(fault)
    assert not isinstance(raised.value, LoginRequiredError)
    _, step = asks(cache, OVER)
    assert isinstance(step, Call)


def test_a_due_token_is_used_on_while_its_store_is_away(cache: TokenCache) -> None:
    inner, _ = asks(cache, DUE)
    inner.close()
    exchange = access_token(cache, KEY, STORE)
    next(exchange)
    assert token_at(lambda: exchange.throw(TokenStoreError("away"))) == "access-1"


def test_without_stored_tokens_the_user_has_to_log_in(cache: TokenCache) -> None:
    with pytest.raises(LoginRequiredError, match="none are stored"):
        asks(cache, None)


def test_a_store_that_seems_empty_does_not_end_what_still_works(cache: TokenCache) -> None:
    cache.put(KEY, token_of_user(DUE, issued=False))
    assert token_at(lambda: asks(cache, None)) == "access-1"


def test_a_service_that_keeps_the_refresh_token_is_followed(cache: TokenCache) -> None:
    exchange, _ = asks(cache, OVER)
    exchange.send({"access_token": "access-2", "expires_in": 36000})
    write = exchange.send(OVER)
    assert write.run.args[0].refresh_token == "refresh-1"
    assert ends(exchange, None) == "access-2"
    assert not any(cache.rejected.values())


@pytest.mark.specification("14.1 app access token")
def test_only_inbox_calls_use_the_user_s_token(cache: TokenCache) -> None:
    step = next(access_token(cache, token_key(USER, "promotions:write"), None))
    assert isinstance(step, Call)
    assert step.form == {"grant_type": "client_credentials", "scope": "promotions:write"}
    assert token_key(USER, "promotions:write") == token_key(SETTINGS, "promotions:write")


def test_the_loser_reads_again_and_goes_on_with_the_winner_s_tokens(cache: TokenCache) -> None:
    exchange, _ = asks(cache, OVER)
    assert isinstance(exchange.throw(NO_USE[0]), Pause)
    for stored in (OVER, None):
        assert exchange.send(None) == READ
        assert isinstance(exchange.send(stored), Pause)
    assert exchange.send(None) == READ
    assert isinstance(exchange.throw(TokenStoreError("away")), Pause)
    exchange.send(None)
    assert ends(exchange, THEIRS) == "access-2"
    theirs = cache.usable(KEY)
    assert theirs is not None
    assert not theirs.issued


@pytest.mark.parametrize("fault", NO_USE)
def test_a_refresh_token_of_no_use_is_not_sent_again_until_the_user_has_logged_in(
    cache: TokenCache, fault: WorkflowError
) -> None:
    exchange, _ = asks(cache, DUE)
    error, waited = waits_in_vain(exchange, exchange.throw(fault))
    assert waited == 10
    assert "'mine'" in str(error)
    assert "Log in again" in str(error)
    assert error.__cause__ is fault
    with pytest.raises(LoginRequiredError) as again:
        asks(cache, DUE)
    assert str(again.value) == str(error)
    elsewhere = token_key(replace(USER, token_url="https://corrected/token"), "external")
    other = token_key(replace(USER, client_id="corrected"), "external")
    new = replace(DUE, access_token="new", refresh_token="new")
    for stored, key in ((new, KEY), (DUE, elsewhere), (DUE, other)):
        _, step = asks(cache, stored, key)
        assert isinstance(step, Call)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {**ANSWER, "access_token": 7},
        {**ANSWER, "refresh_token": "\ud800"},
        {**ANSWER, "refresh_token": " "},
    ],
)
def test_an_answer_of_no_use_is_a_lost_answer(cache: TokenCache, answer: Any) -> None:
    exchange, _ = asks(cache, DUE)
    error, _ = waits_in_vain(exchange, exchange.send(answer))
    assert "lost" in str(error)


def test_a_login_during_the_renewal_is_not_overwritten(cache: TokenCache) -> None:
    exchange, _ = asks(cache, OVER)
    exchange.send(ANSWER)
    login = replace(THEIRS, access_token="access-of-another", refresh_token="another")
    assert ends(exchange, login) == "access-of-another"


def test_a_write_that_fails_is_tried_again(cache: TokenCache) -> None:
    exchange, _ = asks(cache, OVER)
    exchange.send(ANSWER)
    exchange.send(OVER)
    assert exchange.throw(TokenStoreError("away")) == Pause(1.0)
    assert exchange.send(None) == READ
    assert isinstance(exchange.send(OVER), InThread)
    assert ends(exchange, None) == "access-2"


def test_a_write_that_failed_in_appearance_is_not_done_twice(cache: TokenCache) -> None:
    exchange, _ = asks(cache, OVER)
    exchange.send(ANSWER)
    exchange.send(OVER)
    exchange.throw(TokenStoreError("the answer was lost"))
    exchange.send(None)
    # By now others may have renewed what we wrote; theirs would be lost.
    assert ends(exchange, replace(THEIRS, access_token="access-3", refresh_token="refresh-3")) == "access-3"


def test_tokens_that_cannot_be_stored_are_not_used(cache: TokenCache) -> None:
    exchange, _ = asks(cache, OVER)
    step = exchange.send(ANSWER)
    with pytest.raises(LoginRequiredError, match="could not be stored") as raised:  # noqa: PT012 steps before it
        while True:
            step = exchange.send(None) if isinstance(step, Pause) else exchange.throw(TokenStoreError("away"))
    assert cache.usable(KEY) is None
    assert told(raised.value, [ANSWER["access_token"], ANSWER["refresh_token"]]) == []
    with pytest.raises(LoginRequiredError, match="could not be stored"):
        asks(cache, OVER)


SOON = 200.0
"""Seconds of life: due, but not over."""


@pytest.fixture
def user(emulator: EmulatorServer) -> Settings:
    return settings_of(emulator, grant="refresh_token")


@pytest.fixture
def as_user(make_send: MakeSender, user: Settings) -> MakeSender:
    return partial(make_send, user)


def bearers(emulator: EmulatorServer) -> list[str]:
    headers = [request.headers for request in emulator.requests if request.operation != "token"]
    return [header["authorization"].removeprefix("Bearer ") for header in headers]


@pytest.mark.specification("14.1 user access token", "14.3 access token")
def test_a_stored_token_is_used_and_renewed_once_when_it_is_refused_and_no_token_is_logged(
    as_user: MakeSender, emulator: EmulatorServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    to_mask: list[str] = []
    store = MemoryStore(stored := logged_in(emulator))
    send = as_user(store=store, on_token=to_mask.append)
    send(api.list_inboxes())
    send(api.list_inboxes())
    assert bearers(emulator) == [stored.access_token] * 2
    assert (emulator.count("token"), store.reads, store.written) == (0, 1, [])

    for renewals in (1, 2):
        emulator.store.tokens.expire()
        send(api.list_inboxes())
        assert (emulator.count("token"), len(store.written)) == (renewals, renewals)
    assert to_mask == [stored.access_token, *(tokens.access_token for tokens in store.written)]
    assert bearers(emulator)[-1] == to_mask[-1]
    secrets = {*to_mask, *(tokens.refresh_token for tokens in (stored, *store.written))}
    assert [secret for secret in secrets if secret in caplog.text] == []


def test_a_renewed_token_that_is_refused_too_is_sent_once_more_and_not_renewed_again(
    as_user: MakeSender, emulator: EmulatorServer
) -> None:
    send = as_user(store=MemoryStore(logged_in(emulator)))
    emulator.fault("status", operation="list_inboxes", times=None, status=401)
    with pytest.raises(AuthenticationError):
        send(api.list_inboxes())
    assert (emulator.count("token"), emulator.count("list_inboxes")) == (1, 3)


def test_a_lost_answer_ends_in_an_error_that_names_the_cure_and_no_secret(
    as_user: MakeSender, emulator: EmulatorServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    tokens = logged_in(emulator, SOON)
    secrets = (tokens.access_token, tokens.refresh_token)
    send = as_user(store=MemoryStore(tokens))
    emulator.fault("drop", operation="token", when="after")
    with pytest.raises(LoginRequiredError, match="Log in again") as raised:
        send(api.list_inboxes())
    assert told(raised.value, secrets) == []
    assert [secret for secret in secrets if secret in caplog.text] == []
    assert sum(send.naps) == 10
    assert emulator.count("token") == 1


def test_a_store_that_is_away_for_a_moment_is_asked_again(emulator: EmulatorServer, user: Settings) -> None:
    store = MemoryStore(logged_in(emulator))

    def away() -> None:
        if store.reads < 3:
            raise TokenStoreError("away")

    store.on_read = away
    with closing(SyncSender(user, store=store)) as send:
        send(api.list_inboxes())
    assert (store.reads, emulator.count("token")) == (3, 0)


def test_without_a_store_the_error_says_what_is_missing(as_user: MakeSender) -> None:
    with pytest.raises(ConfigurationError, match="refresh_token needs a store"):
        as_user()(api.list_inboxes())


async def test_a_cancelled_trigger_stores_what_it_renewed_and_a_store_does_not_block_its_loop(
    emulator: EmulatorServer, user: Settings
) -> None:
    emulator.fault("hold", operation="token", times=1, when="after")
    store = MemoryStore(logged_in(emulator, SOON))
    threads: list[threading.Thread] = []
    store.on_read = lambda: threads.append(threading.current_thread())
    async with shared_session(user.tls(), 0) as session:
        client = AsyncWorkflowClient(user, session, tokens=TokenCache(), store=store)
        task = asyncio.create_task(client.send(api.list_inboxes()))
        await asyncio.to_thread(emulator.wait_until_held)
        task.cancel()
        await asyncio.sleep(0)
        emulator.release()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert len(store.written) == 1
    assert threads
    assert threading.main_thread() not in threads
