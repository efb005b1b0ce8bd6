"""However a connection is wrong, and however that is printed: ``doctor`` shows no secret and no token."""

from __future__ import annotations

import base64
import logging
from typing import Any

import pytest

from airflow_provider_workflow.hooks.user_tokens import VariableStore
from tests.unit.cli.diagnosing import Doctor, connect, doctor
from tests.unit.client.conftest import closed_port, scripted
from tests.unit.client.isolation import isolated
from tests.unit.client.scripted import ScriptedServer, answer
from tests.unit.client.stores import logged_in

__all__ = ["closed_port", "connect", "doctor", "isolated", "scripted"]

SECRET = "marked-client-secret-value"
WRONG = "marked-wrong-secret-value"
TOKEN = "marked-access-token-value"
USER = {"grant": "refresh_token"}
SCENARIOS: dict[str, dict[str, Any]] = {
    "a good one": {},
    "a wrong secret": {"password": WRONG},
    "a secret in the host": {"host": f"http://user:{WRONG}@127.0.0.1"},
    "a secret in oauth_url": {"extra": {"oauth_url": f"http://user:{WRONG}@127.0.0.1/token"}},
    "an unknown scope": {"extra": {"scope": "unheard-of"}},
    "a missing oauth_url": {"extra": {"oauth_url": ""}},
    "no user": {"extra": USER},
    "a user": {"extra": USER},
    "a user whose tokens ended": {"extra": USER},
}


def secrets_of(doctor: Doctor) -> list[str]:
    pairs = [f"{doctor.emulator.client_id}:{secret}" for secret in (SECRET, WRONG)]
    return [
        SECRET,
        WRONG,
        TOKEN,
        *(base64.b64encode(pair.encode()).decode() for pair in pairs),
        *doctor.emulator.store.tokens.issued,
        *doctor.emulator.store.tokens.refresh_tokens,
    ]


@pytest.fixture
def marked(doctor: Doctor, caplog: pytest.LogCaptureFixture) -> Doctor:
    caplog.set_level(logging.DEBUG)
    doctor.emulator.store.configure(client_secret=SECRET)
    doctor.emulator.open_inbox("orders")
    return doctor


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_secret_is_printed_or_logged(
    scenario: str, marked: Doctor, caplog: pytest.LogCaptureFixture
) -> None:
    if scenario.startswith("a user"):
        tokens = logged_in(marked.emulator, -60 if "ended" in scenario else 36000)
        settings = marked.connect({"verify": False, **USER}, password=SECRET).settings
        VariableStore(settings, lambda _: None).write(tokens)
    found = marked.examine(**{"password": SECRET, **SCENARIOS[scenario]})
    assert len(found.findings) > 1
    shown = found.shown + caplog.text
    assert [secret for secret in secrets_of(marked) if secret in shown] == []


def replies(quoted: str) -> dict[str, bytes]:
    error = {"error": "invalid_client", "error_description": quoted}
    return {
        "an envelope": answer(401, {"errors": [{"code": "invalid_audience", "detail": quoted}]}),
        "an OAuth error": answer(400, error),
        "a page": answer(500, quoted.encode()),
        "a redirect": answer(302, b"", {"Location": f"https://b/?x={quoted.replace(' ', '+')}"}),
        "no HTTP": f"{quoted}\r\n\r\n".encode(),
    }


@pytest.mark.parametrize("reply", replies(""))
@pytest.mark.parametrize("who", ["token endpoint", "inbox API"])
def test_a_service_that_quotes_secrets_is_not_quoted(
    who: str, reply: str, marked: Doctor, scripted: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    # What each of them was sent.
    pair = base64.b64encode(f"{marked.emulator.client_id}:{SECRET}".encode()).decode()
    scripted.token = answer(200, {"access_token": TOKEN, "scope": "external"})
    if who == "token endpoint":
        scripted.token = replies(f"{SECRET} {pair}")[reply]
    scripted.answers = [replies(f"{SECRET} {pair} {TOKEN}")[reply]]
    extra = {"oauth_url": f"{scripted.url}/token"}
    found = marked.examine(extra, host=scripted.url, password=SECRET)
    assert found.of("failed") == ["token" if who == "token endpoint" else "inbox_api"]
    shown = found.shown + caplog.text
    assert [secret for secret in secrets_of(marked) if secret in shown] == []
