"""The authorization page and the token endpoint over a real socket."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import parse_qs, urlsplit

import pytest

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.emulator.conftest import Api

REDIRECT = "http://127.0.0.1:8900/callback"
QUERY = {
    "response_type": "code",
    "client_id": "demo-client",
    "redirect_uri": REDIRECT,
    "scope": "workflow",
    "response_mode": "query",
    "state": '"><script>',
    "utm_source": "airflow",
}
GRANT = {"grant_type": "client_credentials", "scope": "external"}
BASIC = ("demo-client", "demo-secret")


@pytest.mark.specification("9.1 credentials", "9.1 not stored")
@pytest.mark.parametrize(
    ("slash", "multipart", "basic"),
    [("", True, True), ("", False, True), ("/", True, False), ("", False, False)],
)
def test_the_token_endpoint_takes_every_form(
    emulator: EmulatorServer, api: Api, slash: str, multipart: bool, basic: bool
) -> None:
    del api.session.headers["Authorization"]
    fields = GRANT if basic else {**GRANT, "client_id": BASIC[0], "client_secret": BASIC[1]}
    body = (
        {"files": {name: (None, value) for name, value in fields.items()}} if multipart else {"data": fields}
    )
    path = urlsplit(emulator.token_url).path + slash
    response = api("POST", path, auth=BASIC if basic else None, **body)
    assert response.status_code == 200
    assert (response.headers["Cache-Control"], response.headers["Pragma"]) == ("no-store", "no-cache")
    assert set(response.json()) == {"access_token", "expires_in", "token_type", "scope"}


def test_secrets_outside_of_ascii_come_through_multipart(emulator: EmulatorServer, api: Api) -> None:
    secret = "sécret %+&=\r\n --x"
    emulator.store.configure(client_secret=secret)
    fields = {**GRANT, "client_id": BASIC[0], "client_secret": secret}
    body = {name: (None, value.encode()) for name, value in fields.items()}
    del api.session.headers["Authorization"]
    assert api("POST", "/oauth/token", files=body).status_code == 200


@pytest.mark.parametrize("body", [b"", b"--b\r\nrubbish"])
def test_a_malformed_form_is_an_empty_one(api: Api, body: bytes) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    refused = api("POST", "/oauth/token", auth=BASIC, data=body, headers=headers)
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request")


def test_refusals_have_the_form_of_the_rfc(api: Api) -> None:
    wrong = api("POST", "/oauth/token", data=GRANT, auth=("demo-client", "wrong"))
    assert (wrong.status_code, wrong.json()["error"]) == (401, "invalid_client")
    assert wrong.headers["WWW-Authenticate"].startswith("Basic")
    assert wrong.headers["Cache-Control"] == "no-store"
    unknown = api("POST", "/oauth/token", data={"grant_type": "magic"}, auth=BASIC)
    assert (unknown.status_code, unknown.json()["error"]) == (400, "unsupported_grant_type")
    for odd in ({"json": GRANT}, {"data": b"x", "headers": {"Content-Type": "multipart/form-data"}}):
        assert api("POST", "/oauth/token", auth=BASIC, **odd).json()["error"] == "invalid_request"
    malformed = api("POST", "/oauth/token", data=GRANT, headers={"Authorization": "Basic ???"})
    assert malformed.status_code == 401


@pytest.mark.specification("14.3 approval")
def test_a_user_approves_on_the_page_and_the_code_buys_tokens(api: Api) -> None:
    page = api("GET", "/v2/authorize", params=QUERY)
    assert page.status_code == 200
    assert "<script>" not in page.text
    hidden = dict(re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', page.text))
    form = {unescape(name): unescape(value) for name, value in hidden.items()}
    assert form == QUERY
    approved = api("POST", "/v2/authorize", data={**form, "decision": "approve"})
    assert approved.status_code == 302
    target = urlsplit(approved.headers["Location"])
    answer = parse_qs(target.query)
    assert approved.headers["Location"].startswith(f"{REDIRECT}?")
    assert answer["state"] == [QUERY["state"]]
    exchange = {"grant_type": "authorization_code", "code": answer["code"][0], "redirect_uri": REDIRECT}
    first = api("POST", "/oauth/token", data=exchange, auth=BASIC)
    assert first.status_code == 200
    refresh = {"grant_type": "refresh_token", "refresh_token": first.json()["refresh_token"]}
    assert api("POST", "/oauth/token", data=refresh, auth=BASIC).status_code == 200
    assert api("POST", "/oauth/token", data=refresh, auth=BASIC).json()["error"] == "invalid_grant"


def test_a_user_may_deny(api: Api) -> None:
    denied = api("POST", "/v2/authorize", data={**QUERY, "decision": "deny"})
    assert parse_qs(urlsplit(denied.headers["Location"]).query)["error"] == ["access_denied"]


def test_a_stranger_stays_on_the_page(api: Api) -> None:
    response = api("GET", "/v2/authorize", params={**QUERY, "redirect_uri": "https://evil.test/"})
    assert response.status_code == 400
    assert "Location" not in response.headers


def test_other_faults_are_told_to_the_redirect_uri(api: Api) -> None:
    response = api("GET", "/v2/authorize", params={**QUERY, "scope": "everything"})
    answer = parse_qs(urlsplit(response.headers["Location"]).query)
    assert answer == {"error": ["invalid_scope"], "state": [QUERY["state"]]}
