"""User tokens on the wire: both senders, a store, and a service whose refresh tokens are used up."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import closing
from functools import partial

import pytest

from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.client import AsyncWorkflowClient
from airflow_provider_workflow.client.errors import (
    ConfigurationError,
    LoginRequiredError,
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
    headers = [request.headers for request in emulator.requests if request.operation != "token"]
    return [header["authorization"].removeprefix("Bearer ") for header in headers]


@pytest.mark.specification("14.1 user access token", "14.3 access token")
def test_a_stored_token_is_used_and_renewed_once_when_it_is_refused(
    as_user: MakeSender, emulator: EmulatorServer
) -> None:
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


@pytest.mark.specification("14.3 refresh")
def test_due_tokens_rotate_in_the_store_and_are_not_logged(
    as_user: MakeSender, emulator: EmulatorServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    before = logged_in(emulator, SOON)
    store = MemoryStore(before)
    as_user(store=store)(api.list_inboxes())
    (after,) = store.written
    assert bearers(emulator) == [after.access_token]
    assert emulator.count("token") == 1
    secrets = {before.access_token, before.refresh_token, after.access_token, after.refresh_token}
    assert len(secrets) == 4
    assert [secret for secret in secrets if secret in caplog.text] == []


def test_a_lost_answer_ends_in_one_error_that_names_the_cure(
    as_user: MakeSender, emulator: EmulatorServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    tokens = logged_in(emulator, SOON)
    secrets = (tokens.access_token, tokens.refresh_token)
    store = MemoryStore(tokens)
    send = as_user(store=store)
    emulator.fault("drop", operation="token", when="after")
    errors = []
    for _ in range(2):
        with pytest.raises(LoginRequiredError, match="Log in again") as raised:
            send(api.list_inboxes())
        errors.append(str(raised.value))
        assert told(raised.value, secrets) == []
    assert errors[0] == errors[1]
    assert [secret for secret in secrets if secret in caplog.text] == []
    assert sum(send.naps) == 10
    assert emulator.count("token") == 1
    store.tokens = logged_in(emulator)
    send(api.list_inboxes())


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
