"""The three grants and the tokens they issue, with a clock moved by hand."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest

from airflow_provider_workflow.emulator.rules.errors import ServiceError
from airflow_provider_workflow.emulator.rules.oauth import EVENTS, INBOX, PROMOTIONS, Admission
from airflow_provider_workflow.emulator.rules.store import Store

BASIC = ("demo-client", "demo-secret")
REDIRECT = "http://127.0.0.1:8900/callback"
PAGE = {
    "response_type": "code",
    "client_id": "demo-client",
    "redirect_uri": REDIRECT,
    "scope": "workflow workflow:write",
    "response_mode": "query",
    "state": "s t&",
}


def code(store: Store) -> str:
    return parse_qs(urlsplit(store.tokens.approve(PAGE)).query)["code"][0]


def exchange(store: Store, value: str, redirect_uri: str = REDIRECT) -> dict[str, object]:
    form = {"grant_type": "authorization_code", "code": value, "redirect_uri": redirect_uri}
    return store.tokens.grant(form, BASIC)


def error_of(store: Store, credentials: tuple[str, str] | None = BASIC, **form: str) -> tuple[int, str]:
    with pytest.raises(ServiceError) as refusal:
        store.tokens.grant(form, credentials)
    assert set(refusal.value.body) == {"error", "error_description"}
    return refusal.value.status, refusal.value.body["error"]


def admission_of(store: Store, authorization: str | None, admission: Admission) -> tuple[int, str]:
    with pytest.raises(ServiceError) as refusal:
        store.tokens.admit(authorization, admission)
    return refusal.value.status, refusal.value.code


@pytest.mark.specification("9.1 client credentials")
def test_client_credentials_give_a_token_without_refresh_token(store: Store) -> None:
    answer = store.tokens.grant({"grant_type": "client_credentials", "scope": "external"}, BASIC)
    assert answer["expires_in"] == 36000
    assert answer["token_type"] == "Bearer"
    assert answer["scope"] == "external"
    assert "refresh_token" not in answer
    assert store.tokens.admit(f"Bearer {answer['access_token']}", INBOX)


@pytest.mark.specification("9.1 credentials")
def test_credentials_may_be_in_the_body_and_form_encoded_in_basic(store: Store) -> None:
    store.configure(client_id="a b", client_secret="p%+c")
    form = {"grant_type": "client_credentials", "scope": "external"}
    assert store.tokens.grant({**form, "client_id": "a b", "client_secret": "p%+c"}, None)
    assert store.tokens.grant(form, ("a b", "p%+c"))
    assert store.tokens.grant(form, ("a+b", "p%25%2Bc"))


@pytest.mark.specification("10 state", "10 code")
def test_approval_leads_back_with_code_and_state(store: Store) -> None:
    address = urlsplit(store.tokens.approve(PAGE))
    assert address._replace(query="").geturl() == REDIRECT
    assert parse_qs(address.query)["state"] == ["s t&"]
    answer = exchange(store, parse_qs(address.query)["code"][0])
    assert answer["scope"] == "workflow workflow:write"
    assert answer["refresh_token"]


@pytest.mark.specification("10 code", "14.3 code")
def test_a_code_lives_for_two_minutes(store: Store) -> None:
    first, second = code(store), code(store)
    store.clock.advance(119)
    exchange(store, first)
    store.clock.advance(1)
    with pytest.raises(ServiceError, match="invalid_grant"):
        exchange(store, second)


def test_a_code_belongs_to_its_redirect_uri(store: Store) -> None:
    with pytest.raises(ServiceError, match="redirect_uri"):
        exchange(store, code(store), "http://localhost:8080/other")


@pytest.mark.specification("14.3 refresh")
def test_a_refresh_token_is_used_once_and_never_expires(store: Store) -> None:
    first = exchange(store, code(store))
    store.clock.advance(10 * 365 * 86400)
    second = store.tokens.grant(
        {"grant_type": "refresh_token", "refresh_token": str(first["refresh_token"])}, BASIC
    )
    assert second["scope"] == first["scope"]
    assert second["refresh_token"] != first["refresh_token"]
    old = str(first["refresh_token"])
    assert error_of(store, grant_type="refresh_token", refresh_token=old) == (400, "invalid_grant")


@pytest.mark.specification("9.3 client secret")
def test_a_new_client_secret_makes_the_old_one_invalid(store: Store) -> None:
    store.configure(client_secret="new")
    assert error_of(store, grant_type="client_credentials", scope="external") == (401, "invalid_client")


@pytest.mark.specification("10 redirect_uri", "14.1 redirect URIs")
def test_a_stranger_gets_no_redirect(store: Store) -> None:
    for change in (
        {"client_id": "other"},
        {"redirect_uri": "https://evil.test/"},
        {"redirect_uri": ""},
        {"redirect_uri": "http://127.0.0.1:5555/any"},
        {"redirect_uri": f"{REDIRECT}/"},
    ):
        with pytest.raises(ServiceError):
            store.tokens.page_fault({**PAGE, **change})
    store.configure(redirect_uris=(REDIRECT, "http://127.0.0.1:5555/any"))
    store.tokens.page_fault({**PAGE, "redirect_uri": "http://127.0.0.1:5555/any"})


@pytest.mark.specification("10 response_type", "10 response_mode", "10 scope")
def test_faults_of_the_page_are_named_as_the_rfc_does(store: Store) -> None:
    assert store.tokens.page_fault(PAGE) is None
    assert store.tokens.page_fault({**PAGE, "response_type": "token"}) == "unsupported_response_type"
    assert store.tokens.page_fault({**PAGE, "response_mode": "fragment"}) == "invalid_request"
    assert store.tokens.page_fault({**PAGE, "scope": ""}) == "invalid_scope"


@pytest.mark.specification("10 response_mode", "10 state")
@pytest.mark.parametrize("parameter", ["response_type", "response_mode", "state", "scope"])
def test_no_parameter_of_the_page_may_be_left_out(store: Store, parameter: str) -> None:
    assert store.tokens.page_fault({name: PAGE[name] for name in PAGE if name != parameter}) is not None


@pytest.mark.specification("14.3 expired", "11.4 expired")
def test_the_inbox_answers_400_for_a_token_that_expired_or_is_unknown(store: Store) -> None:
    token = store.tokens.issue("external").value
    store.clock.advance(35999)
    store.tokens.admit(f"Bearer {token}", INBOX)
    store.clock.advance(1)
    assert admission_of(store, f"Bearer {token}", INBOX) == (400, "unauthenticated")
    assert admission_of(store, "Bearer nonsense", INBOX) == (400, "unauthenticated")


@pytest.mark.specification("14.3 expired")
@pytest.mark.parametrize("admission", [EVENTS, PROMOTIONS])
def test_elsewhere_an_expired_token_is_401(store: Store, admission: Admission) -> None:
    token = store.tokens.issue(admission[0]).value
    assert store.tokens.expire(token) == 1
    assert admission_of(store, f"Bearer {token}", admission) == (401, "unauthenticated")


@pytest.mark.specification("14.4 prefix", "11.2 401 prefix")
@pytest.mark.parametrize("prefix", ["", "bearer ", "Basic "])
def test_without_the_prefix_bearer_it_is_401(store: Store, prefix: str) -> None:
    token = store.tokens.issue("external").value
    assert admission_of(store, prefix + token, INBOX)[0] == 401
    assert admission_of(store, None, INBOX)[0] == 401


@pytest.mark.specification("14.4 scope")
def test_a_token_of_another_scope_is_refused(store: Store) -> None:
    token = store.tokens.issue("workflow promotions:read").value
    assert admission_of(store, f"Bearer {token}", INBOX) == (401, "invalid_audience")
    assert admission_of(store, f"Bearer {token}", PROMOTIONS) == (403, "forbidden")


def test_what_is_secret_says_what_it_is_and_is_never_the_same_twice(store: Store) -> None:
    codes = [code(store) for _ in range(2)]
    answers = [exchange(store, each) for each in codes]
    for kind, values in {
        "code": codes,
        "access-token": [str(answer["access_token"]) for answer in answers],
        "refresh-token": [str(answer["refresh_token"]) for answer in answers],
    }.items():
        assert len(set(values)) == 2
        assert all(re.fullmatch(rf"emulated-{kind}-[\w-]{{22,}}", value) for value in values)
