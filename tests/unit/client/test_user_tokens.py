"""User tokens: what is read, sent and stored, in which order, and how tokens are lost."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.aiohttp_transport import shared_session
from airflow_provider_workflow.client.async_client import AsyncWorkflowClient
from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    ConfigurationError,
    LoginRequiredError,
    RateLimitError,
    ServerError,
    TokenStoreError,
    TransportError,
    WorkflowError,
)
from airflow_provider_workflow.client.http_messages import Answer
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.tokens import TokenCache, token_key, token_of_user
from airflow_provider_workflow.client.user_tokens import READ_AGAIN_SECONDS, UserTokens
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.traces import secrets_in
from tests.unit.client.conftest import MakeSender, settings_of
from tests.unit.client.endpoint import SETTINGS, Endpoint, UnansweredError, ok
from tests.unit.client.senders import SyncSender
from tests.unit.client.stores import MemoryStore, logged_in
from tests.unit.client.test_tokens import DOWN
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
AWAY = TokenStoreError("away")
OURS = UserTokens("access-2", "refresh-2", NOW + 35700, NOW + 36000)

REFUSED: dict[str, Answer | Exception] = {
    "a 200": ok({"error": "invalid_grant"}),
    "a code": Answer(400, {}, b'{"error": "invalid_grant"}'),
    "an explanation": Answer(400, {}, b'{"detail": "used"}'),
    "no answer": TransportError("cut", sent=True),
}
"""After these the refresh token may be invalid."""


class ScriptedStore(MemoryStore):
    """
    A store of which each read has another result.

    :param results: what reads return or raise; the last one again and again.
    :param writes: what the first writes raise.
    """

    def __init__(self, *results: UserTokens | Exception | None, writes: Sequence[Exception] = ()) -> None:
        super().__init__()
        self.results = list(results)
        self.faults = list(writes)
        self.done: list[str] = []

    def read(self) -> UserTokens | None:
        self.reads += 1
        self.done.append("read")
        result = self.results.pop(0) if len(self.results) > 1 else self.results[0]
        if isinstance(result, Exception):
            raise result
        return result

    def write(self, tokens: UserTokens) -> None:
        self.done.append("write")
        super().write(tokens)
        if self.faults:
            raise self.faults.pop(0)


@pytest.fixture
def endpoint(cache: TokenCache) -> Endpoint:
    return Endpoint(cache)


def token(endpoint: Endpoint, store: MemoryStore, *replies: Any, settings: Settings = USER) -> str:
    """The token that a client with this store gets."""
    return endpoint.token(*replies, settings=settings, store=store)


def is_asked(endpoint: Endpoint, stored: UserTokens, settings: Settings = USER) -> bool:
    """Whether a client that finds these tokens requests new ones."""
    with pytest.raises(UnansweredError):
        token(endpoint, ScriptedStore(stored), settings=settings)
    return True


@pytest.mark.specification("14.3 refresh")
@pytest.mark.parametrize("stored", [DUE, OVER])
def test_tokens_are_stored_before_they_are_used(endpoint: Endpoint, stored: UserTokens) -> None:
    class Watched(ScriptedStore):
        def write(self, tokens: UserTokens) -> None:
            super().write(tokens)
            before = endpoint.cache.usable(KEY)
            assert before is None or before.value == "access-1"

    store = Watched(stored)

    def answered() -> Answer:
        store.done.append("answered")
        return ok(ANSWER)

    assert token(endpoint, store, answered) == "access-2"
    assert endpoint.forms == [{"grant_type": "refresh_token", "refresh_token": "refresh-1"}]
    assert store.done == ["read", "answered", "read", "write"]
    assert store.written == [OURS]


def test_a_process_that_finds_due_tokens_stored_keeps_to_the_stored_times(
    endpoint: Endpoint, fake_clock: FakeClock
) -> None:
    store = ScriptedStore(FRESH)
    assert token(endpoint, store) == "access-1"
    fake_clock.advance(899)
    assert token(endpoint, store) == "access-1"
    assert store.reads == 1
    fake_clock.advance(1)
    with pytest.raises(UnansweredError):
        token(endpoint, store)
    assert store.reads == 2


def test_a_token_that_was_refused_is_replaced_by_one_that_another_stored(endpoint: Endpoint) -> None:
    endpoint.cache.put(KEY, token_of_user(FRESH, issued=False))
    endpoint.cache.drop(KEY, "access-1")
    assert token(endpoint, ScriptedStore(THEIRS)) == "access-2"


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        *zip(DOWN, (TransportError, ServerError, RateLimitError), strict=True),
        *((Answer(status, {}, b""), AuthenticationError) for status in (400, 401)),
        (ok({"error": "temporarily_unavailable"}), AuthenticationError),
    ],
)
def test_what_used_nothing_up_is_no_reason_to_log_in(
    endpoint: Endpoint, fault: Any, kind: type[WorkflowError]
) -> None:
    with pytest.raises(kind) as error_info:
        token(endpoint, ScriptedStore(OVER), fault)
    assert not isinstance(error_info.value, LoginRequiredError)
    assert is_asked(endpoint, OVER)


def test_a_due_token_is_used_on_while_its_store_is_away(endpoint: Endpoint) -> None:
    assert is_asked(endpoint, DUE)
    assert token(endpoint, ScriptedStore(AWAY)) == "access-1"


def test_without_stored_tokens_the_user_has_to_log_in(endpoint: Endpoint) -> None:
    with pytest.raises(LoginRequiredError, match="none are stored"):
        token(endpoint, ScriptedStore(None))


def test_a_store_that_seems_empty_does_not_end_what_still_works(endpoint: Endpoint) -> None:
    endpoint.cache.put(KEY, token_of_user(DUE, issued=False))
    assert token(endpoint, ScriptedStore(None)) == "access-1"


def test_a_service_that_keeps_the_refresh_token_is_followed(endpoint: Endpoint) -> None:
    store = ScriptedStore(OVER)
    assert token(endpoint, store, ok({"access_token": "access-2", "expires_in": 36000})) == "access-2"
    assert [tokens.refresh_token for tokens in store.written] == ["refresh-1"]
    assert not any(endpoint.cache.rejected.values())


@pytest.mark.specification("14.1 app access token")
def test_only_inbox_calls_use_the_user_s_token(endpoint: Endpoint) -> None:
    assert endpoint.token(ok(ANSWER), settings=USER, scope="promotions:write") == "access-2"
    assert endpoint.forms == [{"grant_type": "client_credentials", "scope": "promotions:write"}]
    assert token_key(USER, "promotions:write") == token_key(SETTINGS, "promotions:write")


def test_the_loser_reads_again_and_goes_on_with_the_winner_s_tokens(
    endpoint: Endpoint, fake_clock: FakeClock
) -> None:
    store = ScriptedStore(OVER, OVER, None, AWAY, THEIRS)
    assert token(endpoint, store, REFUSED["a 200"]) == "access-2"
    assert fake_clock.slept == list(READ_AGAIN_SECONDS[:4])
    theirs = endpoint.cache.usable(KEY)
    assert theirs is not None
    assert not theirs.issued


@pytest.mark.parametrize("fault", REFUSED)
def test_a_refresh_token_of_no_use_is_not_sent_again_until_the_user_has_logged_in(
    endpoint: Endpoint, fake_clock: FakeClock, fault: str
) -> None:
    store = ScriptedStore(DUE)
    with pytest.raises(LoginRequiredError, match=r"'mine'.*Log in again") as error_info:
        token(endpoint, store, REFUSED[fault])
    assert (sum(fake_clock.slept), store.reads) == (10, 10)
    assert isinstance(error_info.value.__cause__, WorkflowError)
    with pytest.raises(LoginRequiredError) as again:
        token(endpoint, ScriptedStore(replace(DUE, expires_at=NOW)))
    assert str(again.value) == str(error_info.value)
    new = replace(OVER, access_token="new", refresh_token="new")
    assert is_asked(endpoint, new)
    for corrected in ({"token_url": "https://corrected/token"}, {"client_id": "corrected"}):
        assert is_asked(endpoint, OVER, replace(USER, **corrected))


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {**ANSWER, "access_token": 7},
        {**ANSWER, "refresh_token": "\ud800"},
        {**ANSWER, "refresh_token": " "},
    ],
)
def test_an_answer_of_no_use_is_a_lost_answer(endpoint: Endpoint, fake_clock: FakeClock, answer: Any) -> None:
    with pytest.raises(LoginRequiredError, match="lost"):
        token(endpoint, ScriptedStore(DUE), ok(answer))
    assert sum(fake_clock.slept) == 10


def test_a_login_during_the_renewal_is_not_overwritten(endpoint: Endpoint) -> None:
    login = replace(THEIRS, access_token="access-of-another", refresh_token="another")
    store = ScriptedStore(OVER, login)
    assert token(endpoint, store, ok(ANSWER)) == "access-of-another"
    assert store.written == []


def test_a_write_that_fails_is_tried_again(endpoint: Endpoint, fake_clock: FakeClock) -> None:
    store = ScriptedStore(OVER, writes=[AWAY])
    assert token(endpoint, store, ok(ANSWER)) == "access-2"
    assert store.done == ["read", "read", "write", "read", "write"]
    assert fake_clock.slept == [1.0]


def test_a_write_that_failed_in_appearance_is_not_done_twice(endpoint: Endpoint) -> None:
    # By now others may have renewed what we wrote; theirs would be lost.
    other_tokens = replace(THEIRS, access_token="access-3", refresh_token="refresh-3")
    store = ScriptedStore(OVER, OVER, other_tokens, writes=[AWAY])
    assert token(endpoint, store, ok(ANSWER)) == "access-3"
    assert store.written == [OURS]


def test_tokens_that_cannot_be_stored_are_not_used(endpoint: Endpoint) -> None:
    with pytest.raises(LoginRequiredError, match="could not be stored") as error_info:
        token(endpoint, ScriptedStore(OVER, AWAY), ok(ANSWER))
    assert endpoint.cache.usable(KEY) is None
    assert secrets_in(error_info.value, [ANSWER["access_token"], ANSWER["refresh_token"]]) == []
    with pytest.raises(LoginRequiredError, match="could not be stored"):
        token(endpoint, ScriptedStore(OVER))


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
    with pytest.raises(LoginRequiredError, match="Log in again") as error_info:
        send(api.list_inboxes())
    assert secrets_in(error_info.value, secrets) == []
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
