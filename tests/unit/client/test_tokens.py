"""Tokens on the wire: renewed once where they are refused, asked for once by many."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from airflow_provider_workflow.client import api, errors
from airflow_provider_workflow.client.client import AsyncWorkflowClient, WorkflowClient
from airflow_provider_workflow.client.over_aiohttp import shared_session
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.tokens import TokenCache
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.client.calls import make, operation
from tests.unit.client.conftest import MakeSender, settings_of
from tests.unit.client.senders import Sender
from tests.unit.fake_clock import FakeClock

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
