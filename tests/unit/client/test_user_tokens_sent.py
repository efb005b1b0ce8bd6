"""User tokens on the wire: both senders, a store, and a service whose refresh tokens are used up."""

from __future__ import annotations

import asyncio
import logging
import threading
from functools import partial

import pytest

from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.client import AsyncWorkflowClient
from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    ConfigurationError,
    LoginRequiredError,
    ServerError,
    TokenStoreError,
)
from airflow_provider_workflow.client.over_aiohttp import shared_session
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.tokens import TokenCache
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.traces import told
from tests.unit.client.conftest import MakeSender, settings_of
from tests.unit.client.senders import SyncSender
from tests.unit.client.stores import MemoryStore, logged_in

pytestmark = pytest.mark.usefixtures("fake_clock")

SOON = 200.0
"""Seconds of life: due, but not over."""


@pytest.fixture
def user(emulator: EmulatorServer) -> Settings:
    return settings_of(emulator, grant="refresh_token")


@pytest.fixture
def as_user(make_send: MakeSender, user: Settings) -> MakeSender:
    return partial(make_send, user)


def bearers(emulator: EmulatorServer) -> list[str]:
    found = [each.headers["authorization"] for each in emulator.requests if each.operation != "token"]
    return [each.removeprefix("Bearer ") for each in found]


@pytest.mark.specification("14.1 user access token", "14.3 access token")
def test_a_stored_token_is_used(as_user: MakeSender, emulator: EmulatorServer) -> None:
    store = MemoryStore(logged_in(emulator))
    send = as_user(store=store)
    send(api.list_inboxes())
    send(api.list_inboxes())
    assert store.tokens is not None
    assert bearers(emulator) == [store.tokens.access_token] * 2
    assert (emulator.count("token"), store.reads, store.written) == (0, 1, [])


@pytest.mark.specification("14.3 refresh")
def test_due_tokens_rotate_in_the_store(as_user: MakeSender, emulator: EmulatorServer) -> None:
    before = logged_in(emulator, SOON)
    store = MemoryStore(before)
    as_user(store=store)(api.list_inboxes())
    (after,) = store.written
    assert bearers(emulator) == [after.access_token]
    assert {before.access_token, before.refresh_token}.isdisjoint({after.access_token, after.refresh_token})
    assert emulator.count("token") == 1


def test_a_refused_token_from_the_store_is_renewed_once(
    as_user: MakeSender, emulator: EmulatorServer
) -> None:
    store = MemoryStore(logged_in(emulator))
    send = as_user(store=store)
    emulator.store.tokens.expire()
    send(api.list_inboxes())
    assert (emulator.count("token"), len(store.written)) == (1, 1)
    emulator.store.tokens.expire()
    send(api.list_inboxes())
    assert (emulator.count("token"), len(store.written)) == (2, 2)


def test_a_new_token_that_is_refused_is_not_renewed_again(
    as_user: MakeSender, emulator: EmulatorServer
) -> None:
    send = as_user(store=MemoryStore(logged_in(emulator)))
    emulator.fault("status", operation="list_inboxes", times=None, status=401)
    with pytest.raises(AuthenticationError):
        send(api.list_inboxes())
    assert (emulator.count("token"), emulator.count("list_inboxes")) == (1, 2)


def test_a_user_who_did_not_grant_the_scope_is_not_renewed(
    as_user: MakeSender, emulator: EmulatorServer
) -> None:
    send = as_user(store=MemoryStore(logged_in(emulator, scope="workflow")))
    with pytest.raises(AuthenticationError) as raised:
        send(api.list_inboxes())
    assert raised.value.code == "invalid_audience"
    assert emulator.count("token") == 0


def test_promotions_use_a_token_of_the_application(as_user: MakeSender, emulator: EmulatorServer) -> None:
    store = MemoryStore()
    as_user(store=store)(api.unenroll_promotion("e-1"))
    assert emulator.store.unenrolled == ["e-1"]
    assert store.reads == 0


def test_the_loser_goes_on_with_the_winner_s_tokens(as_user: MakeSender, emulator: EmulatorServer) -> None:
    store = MemoryStore(logged_in(emulator, SOON))
    stored = MemoryStore(store.tokens)
    loser, winner = as_user(store=store), as_user(store=stored)

    def wins() -> None:
        store.on_read = lambda: None if store.reads < 4 else setattr(store, "tokens", stored.tokens)
        winner(api.list_inboxes())

    store.on_read = wins
    loser(api.list_inboxes())
    assert (emulator.count("token"), store.written, len(stored.written)) == (2, [], 1)
    assert bearers(emulator) == [stored.tokens.access_token] * 2
    assert sum(loser.naps) < 10


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lost_answer_ends_in_one_error_that_names_the_cure(
    when: str, as_user: MakeSender, emulator: EmulatorServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    tokens = logged_in(emulator, SOON)
    store = MemoryStore(tokens)
    send = as_user(store=store)
    emulator.fault("drop", operation="token", when=when)
    texts = []
    for _ in range(3):
        with pytest.raises(LoginRequiredError) as raised:
            send(api.list_inboxes())
        texts.append(str(raised.value))
        secrets = (tokens.access_token, tokens.refresh_token)
        assert told(raised.value, secrets) == []
        assert not [each for each in secrets if each in caplog.text]
    assert "Log in again" in texts[0]
    assert len(set(texts)) == 1
    assert sum(send.naps) == 10
    assert emulator.count("token") == 1
    store.tokens = logged_in(emulator)
    send(api.list_inboxes())


def test_a_refresh_is_sent_once_whatever_the_service_says(
    as_user: MakeSender, emulator: EmulatorServer
) -> None:
    for status in (500, 503, 504):
        send = as_user(store=MemoryStore(logged_in(emulator, -1)))
        before = emulator.count("token")
        emulator.fault("status", operation="token", status=status)
        with pytest.raises(ServerError):
            send(api.list_inboxes())
        assert emulator.count("token") == before + 1


def test_a_due_token_outlives_a_service_that_is_down(as_user: MakeSender, emulator: EmulatorServer) -> None:
    store = MemoryStore(logged_in(emulator, SOON))
    send = as_user(store=store)
    emulator.fault("status", operation="token", status=503, times=None)
    for _ in range(3):
        send(api.list_inboxes())
    assert (emulator.count("token"), store.written) == (1, [])


def test_a_write_that_fails_at_first_loses_nothing(as_user: MakeSender, emulator: EmulatorServer) -> None:
    store = MemoryStore(logged_in(emulator, SOON))
    store.away = 2
    send = as_user(store=store)
    send(api.list_inboxes())
    assert (emulator.count("token"), len(store.written), send.naps) == (1, 1, [1.0, 2.0])


def test_a_store_that_is_away_for_a_moment_is_asked_again(emulator: EmulatorServer, user: Settings) -> None:
    store = MemoryStore(logged_in(emulator))

    def away() -> None:
        if store.reads < 3:
            raise TokenStoreError("away")

    store.on_read = away
    send = SyncSender(user, store=store)
    send(api.list_inboxes())
    send.close()
    assert (store.reads, emulator.count("token")) == (3, 0)


def test_every_token_is_told_to_whoever_masks_it(as_user: MakeSender, emulator: EmulatorServer) -> None:
    told: list[str] = []
    store = MemoryStore(logged_in(emulator))
    send = as_user(store=store, on_token=told.append)
    send(api.list_inboxes())
    emulator.store.tokens.expire()
    send(api.list_inboxes())
    assert told == bearers(emulator)[:1] + bearers(emulator)[2:]


def test_without_a_store_the_error_says_what_is_missing(as_user: MakeSender) -> None:
    with pytest.raises(ConfigurationError, match="refresh_token needs a store"):
        as_user()(api.list_inboxes())


def test_a_renewal_shows_no_token(
    as_user: MakeSender, emulator: EmulatorServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    store = MemoryStore(logged_in(emulator, SOON))
    before = store.tokens
    as_user(store=store)(api.list_inboxes())
    for tokens in (before, store.tokens):
        assert tokens is not None
        assert tokens.access_token not in caplog.text
        assert tokens.refresh_token not in caplog.text


async def test_a_cancelled_trigger_stores_what_it_renewed(emulator: EmulatorServer, user: Settings) -> None:
    emulator.fault("hold", operation="token", times=1, when="after")
    store = MemoryStore(logged_in(emulator, SOON))
    async with shared_session(user.certificates(), 0) as session:
        client = AsyncWorkflowClient(user, session, tokens=TokenCache(), store=store)
        task = asyncio.create_task(client.send(api.list_inboxes()))
        await asyncio.to_thread(emulator.wait_until_held)
        task.cancel()
        await asyncio.sleep(0)
        emulator.release()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert len(store.written) == 1


async def test_a_slow_store_does_not_block_the_loop(emulator: EmulatorServer, user: Settings) -> None:
    seen: list[threading.Thread] = []
    store = MemoryStore(logged_in(emulator, SOON))
    store.on_read = lambda: seen.append(threading.current_thread())
    async with shared_session(user.certificates(), 0) as session:
        client = AsyncWorkflowClient(user, session, tokens=TokenCache(), store=store)
        await client.send(api.list_inboxes())
    assert seen
    assert threading.main_thread() not in seen
