"""How the receiver speaks to Airflow: tokens that are renewed, and what each refusal is about."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from airflow_provider_workflow.client.errors import TransportError
from airflow_provider_workflow.receiver.airflow_rest import AirflowRest
from airflow_provider_workflow.receiver.airflow_token import AirflowFailure, Credentials
from tests.unit.receiver.airflow import PASSWORD, USERNAME, FakeAirflow
from tests.unit.receiver.conftest import Connect

NOT_AIRFLOWS = [b"<html>", b'{"dag_runs": [{}]}', b'{"access_token": "a-token\\r\\nX: y", "dag_runs": [1]}']


async def failure(rest: AirflowRest) -> str:
    with pytest.raises(AirflowFailure) as caught:
        await rest.next_run_id("dispatch", "orders")
    return str(caught.value)


async def test_one_login_serves_many_calls(airflow: FakeAirflow, connect: Connect) -> None:
    rest = connect()
    calls = [rest.next_run_id("dispatch", inbox) for inbox in ("a", "b", "c")]
    assert len(set(await asyncio.gather(*calls))) == 3
    assert airflow.logins == 1


async def test_a_token_that_is_refused_is_renewed_once_for_all(
    airflow: FakeAirflow, connect: Connect
) -> None:
    rest = connect()
    await rest.next_run_id("dispatch", "orders")
    airflow.tokens.clear()
    airflow.open.clear()
    calls = asyncio.gather(*(rest.next_run_id("dispatch", inbox) for inbox in ("a", "b", "c")))
    for _ in range(4):
        await asyncio.wait_for(airflow.looked.get(), 10)
    airflow.open.set()
    assert all(await calls)
    assert airflow.logins == 2


async def test_a_start_whose_token_ran_out_is_made_with_the_next(
    airflow: FakeAirflow, connect: Connect
) -> None:
    rest = connect()
    await rest.next_run_id("dispatch", "orders")
    airflow.tokens.clear()
    assert await rest.start("dispatch", "notified__1", "orders") is True
    assert await rest.start("dispatch", "notified__1", "orders") is False
    assert len(airflow.runs) == 1


async def test_a_token_in_a_file_is_read_again_once_it_is_refused(
    airflow: FakeAirflow, connect: Connect, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(airflow.issue() + "\n")
    rest = connect(Credentials(token=file.read_text))
    await rest.next_run_id("dispatch", "orders")
    airflow.tokens.clear()
    assert "correct the credentials" in await failure(rest)
    file.write_text(airflow.issue())
    assert await rest.next_run_id("dispatch", "orders")
    assert airflow.logins == 0


async def test_without_credentials_a_token_is_asked_for_without_a_password(
    airflow: FakeAirflow, connect: Connect
) -> None:
    rest = connect(Credentials())
    assert "give a user name and a password, or a token" in await failure(rest)
    airflow.all_admins = True
    assert await rest.next_run_id("dispatch", "orders")


async def test_a_wrong_password_is_named_and_not_shown(airflow: FakeAirflow, connect: Connect) -> None:
    text = await failure(connect(Credentials(USERNAME, lambda: "wrong-secret")))
    assert text == "Airflow gives no token (/auth/token answered 401): correct the user name and the password"


async def test_a_password_may_hold_anything_but_a_line_break_at_its_end(
    airflow: FakeAirflow, connect: Connect
) -> None:
    assert await connect(Credentials(USERNAME, lambda: PASSWORD + "\r\n")).next_run_id("dispatch", "a")
    for other in (f" {PASSWORD}", f"{PASSWORD} ", "ключ"):
        assert "answered 401" in await failure(connect(Credentials(USERNAME, lambda given=other: given)))


@pytest.mark.parametrize(
    ("text", "problem"),
    [("", "is empty"), ("to\nken", "no line of plain"), ("жетон", "no line of plain")],
)
async def test_a_token_that_can_be_none_is_not_sent(
    airflow: FakeAirflow, connect: Connect, text: str, problem: str
) -> None:
    assert problem in await failure(connect(Credentials(token=lambda: text)))
    assert airflow.looks == 0


async def test_a_file_that_is_gone_is_named(connect: Connect, tmp_path: Path) -> None:
    text = await failure(connect(Credentials(token=(tmp_path / "token").read_text)))
    assert text == "the file with the token for Airflow cannot be read: No such file or directory"


@pytest.mark.parametrize(
    ("status", "cure"),
    [
        (403, "let the user read and create runs of the DAG 'dispatch'"),
        (404, "deploy the DAG 'dispatch'"),
        (307, "correct the address of Airflow"),
        (500, "Airflow answered 500 ('because')"),
    ],
)
async def test_a_refusal_names_its_cure(
    airflow: FakeAirflow, connect: Connect, status: int, cure: str
) -> None:
    airflow.fault = (status, "because")
    assert cure in await failure(connect())
    with pytest.raises(AirflowFailure, match=str(status)):
        await connect().start("dispatch", "notified__1", "orders")


@pytest.mark.parametrize("detail", [None, [{"input": "x"}]])
async def test_a_refusal_that_explains_itself_otherwise_is_told_by_its_status(
    airflow: FakeAirflow, connect: Connect, detail: Any
) -> None:
    airflow.fault = (422, detail)
    assert await failure(connect()) == "Airflow answered 422"


@pytest.mark.parametrize("body", [*NOT_AIRFLOWS, b""])
@pytest.mark.parametrize("credentials", [Credentials(), Credentials(token=lambda: "a-token")])
async def test_an_answer_that_is_not_airflows_is_called_that(body: bytes, credentials: Credentials) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        rest = AirflowRest(str(server.make_url("/other")), credentials, session)
        assert "correct the address of Airflow" in await failure(rest)


async def test_nobody_at_the_address_is_a_transport_error(airflow: FakeAirflow, connect: Connect) -> None:
    rest = connect()
    await airflow.server.close()
    with pytest.raises(TransportError):
        await rest.next_run_id("dispatch", "orders")
