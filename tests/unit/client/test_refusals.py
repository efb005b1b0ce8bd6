"""Whoever is refused is told by whom, of which connection, and what to correct."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.call import Call
from airflow_provider_workflow.client.errors import AuthenticationError
from airflow_provider_workflow.client.settings import USER_GRANT
from tests.unit.client.conftest import MakeSender
from tests.unit.client.scripted import ScriptedServer, answer

INBOX = "0f0e0d0c-0b0a-4908-8706-050403020100"
SECRETS = ("a-secret", "scripted-token", "an-id")


def refused(
    status: int, code: str, call: Call[Any], make_send: MakeSender, scripted: ScriptedServer, **changes: Any
) -> AuthenticationError:
    """What a call is answered that is refused itself, or by the token endpoint where that is asked for."""
    body = {"error": code, "error_description": "not you"} if code else {}
    if code in ("unauthenticated", "invalid_audience"):
        body = {"errors": [{"code": code, "detail": "not you"}]}
    scripted.script(answer(status, body), token=answer(status, body) if changes.pop("by_token", 0) else None)
    send = make_send(replace(scripted.settings(), connection_id="shop_prod", **changes))
    with pytest.raises(AuthenticationError) as caught:
        send(call)
    return caught.value


@pytest.mark.parametrize(
    ("status", "code", "call", "more", "fix"),
    [
        (
            401,
            "invalid_client",
            api.get_inbox(INBOX),
            {"by_token": 1},
            "correct its Client ID (login) and Client secret",
        ),
        (
            400,
            "invalid_client",
            api.get_inbox(INBOX),
            {"by_token": 1},
            "correct its Client ID (login) and Client secret",
        ),
        (403, "", api.get_inbox(INBOX), {"by_token": 1}, "correct its Client ID (login) and Client secret"),
        (400, "invalid_scope", api.get_inbox(INBOX), {"by_token": 1}, "correct its Scope or have"),
        (200, "", api.get_inbox(INBOX), {"by_token": 1}, "correct its Token URL"),
        (401, "", api.guess("an order"), {}, "correct its Client ID (login)"),
        (
            403,
            "",
            api.unenroll_promotion("1"),
            {},
            "have the application allowed to use the scope promotions:write",
        ),
        (
            401,
            "invalid_audience",
            api.get_inbox(INBOX),
            {},
            "correct its Scope, and take Base URL (host) and Token URL",
        ),
        (
            400,
            "unauthenticated",
            api.get_inbox(INBOX),
            {},
            "have the application allowed to use trigger inboxes",
        ),
    ],
)
def test_a_refusal_names_connection_host_and_cure_in_one_sentence(
    status: int,
    code: str,
    call: Call[Any],
    more: dict[str, Any],
    fix: str,
    make_send: MakeSender,
    scripted: ScriptedServer,
) -> None:
    error = refused(status, code, call, make_send, scripted, **more)

    text = str(error)
    begin = f"The connection 'shop_prod' is refused by 127.0.0.1:{scripted.port}, {fix}"
    assert text.startswith(begin)
    assert text.endswith(f": {error.reason}")
    assert "\n" not in text
    assert not any(secret in text for secret in SECRETS)
    assert str(pickle.loads(pickle.dumps(error))) == text


def test_a_refusal_of_a_user_says_how_to_log_in(make_send: MakeSender, scripted: ScriptedServer) -> None:
    call = api.exchange_code("a-code", "https://a/back")
    error = refused(400, "invalid_grant", call, make_send, scripted, by_token=1, grant=USER_GRANT)

    assert "log in again (airflow-workflow login --conn-id shop_prod)" in str(error)


def test_without_a_connection_the_text_is_what_the_service_answered(
    make_send: MakeSender, scripted: ScriptedServer
) -> None:
    scripted.script(answer(403, {"detail": "not you"}))
    with pytest.raises(
        AuthenticationError, match=r"^The request to guess a workflow was answered with 403: not you$"
    ):
        make_send(scripted.settings())(api.guess("an order"))
