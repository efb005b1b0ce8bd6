"""The service's routes and pages of the emulator."""

from __future__ import annotations

import asyncio
import re
import socket
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
import requests

from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.emulator.web.app import OPERATIONS
from tests.unit.emulator.conftest import SUBSCRIPTION, Api


def test_no_method_and_path_is_declared_twice() -> None:
    declared = [(operation.method, operation.path) for operation in OPERATIONS]
    assert len(declared) == len(set(declared))


def test_a_failure_of_the_emulator_itself_is_a_500_of_the_specification(
    emulator: EmulatorServer, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(emulator.store.inboxes, "page", fail)
    response = api("GET", "/inboxes")
    (error,) = response.json()["errors"]
    assert (response.status_code, error["status"], error["code"]) == (500, 500, "error")
    assert error["meta"]["full_details"] == {"message": "broken on purpose", "code": "RuntimeError"}


def test_unknown_paths_are_rate_limited_as_well(emulator: EmulatorServer, api: Api) -> None:
    emulator.store.configure(rate_limit=1)
    assert [api("GET", "/nowhere").status_code for _ in range(2)] == [404, 429]


LEASE = "0b7e6f3a-6f0e-4f8e-9a51-0d6a6c1b2f10"
FIELDS = {
    "id", "created_at", "name", "key", "status", "paused_reason", "notification_url", "subscription"
}  # fmt: skip


def error_of(response: Any) -> dict[str, Any]:
    (error,) = response.json()["errors"]
    assert error["status"] == response.status_code
    assert error["detail"]
    return dict(error)


def test_an_inbox_lives_from_creation_to_deletion(api: Api) -> None:
    created = api("POST", "/inboxes", {"name": "orders", "subscription": SUBSCRIPTION, "unknown": 1})
    assert created.status_code == 201
    inbox = created.json()
    assert set(inbox) == FIELDS
    assert (inbox["status"], inbox["subscription"]) == ("initializing", SUBSCRIPTION)
    path = f"/inboxes/{inbox['id']}"
    assert api("GET", path).json()["status"] == "active"
    assert api("POST", "/inboxes", {"name": "orders", "subscription": SUBSCRIPTION}).status_code == 409
    changed = api("PATCH", path, {"notification_url": "http://receiver.test/"})
    assert (changed.status_code, changed.json()["notification_url"]) == (200, "http://receiver.test/")
    paused = api("POST", f"{path}/pause")
    assert (paused.status_code, paused.json()["paused_reason"]) == (200, "user")
    assert api("POST", f"{path}/pause").status_code == 409
    assert api("POST", f"{path}/resume").status_code == 200
    assert api("POST", f"{path}/resume").status_code == 409
    deleted = api("DELETE", path)
    assert (deleted.status_code, deleted.json()["status"]) == (202, "deleting")
    for method, below in (("GET", ""), ("DELETE", ""), ("GET", "/messages"), ("POST", "/messages/lease")):
        assert error_of(api(method, path + below))["code"] == "not_found"


def test_ensure_creates_finds_or_refuses(api: Api) -> None:
    body = {"name": "orders", "subscription": {"app_key": "my-shop", "action_key": "order", "inputs": {}}}
    first, second = api("PUT", "/inboxes", body), api("PUT", "/inboxes", body)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]
    assert first.json()["subscription"]["app_key"] == "MyShopAPI@1.0.0"
    assert api("PUT", "/inboxes", {**body, "subscription": SUBSCRIPTION}).status_code == 409
    assert error_of(api("PUT", "/inboxes", {"subscription": SUBSCRIPTION}))["source"] == {"pointer": "/name"}


def test_a_resumed_inbox_is_202_while_it_initializes(emulator: EmulatorServer, api: Api) -> None:
    inbox_id = emulator.open_inbox("orders")
    emulator.store.configure(initializing_seconds=5)
    api("POST", f"/inboxes/{inbox_id}/pause")
    resumed = api("POST", f"/inboxes/{inbox_id}/resume")
    assert (resumed.status_code, resumed.json()["status"]) == (202, "initializing")


@pytest.mark.parametrize("prefix", ["/trigger-inbox/v1", "/trigger-inbox/api/v1"])
def test_both_prefixes_answer_and_links_stay_below_theirs(
    emulator: EmulatorServer, api: Api, prefix: str
) -> None:
    ids = [emulator.open_inbox(name) for name in "abc"]
    page = api("GET", f"{prefix}/inboxes", params={"limit": 2, "status": "active"}).json()
    assert (page["count"], page["previous"]) == (3, None)
    following = urlsplit(page["next"])
    assert (following.netloc, following.path) == (urlsplit(emulator.base_url).netloc, f"{prefix}/inboxes")
    rest = api.session.get(page["next"], timeout=5).json()
    assert [each["id"] for each in (*page["results"], *rest["results"])] == ids
    assert rest["next"] is None
    assert api.session.get(rest["previous"], timeout=5).json() == page


def test_messages_are_leased_and_acknowledged(emulator: EmulatorServer, api: Api) -> None:
    ids = emulator.put("orders", {"n": 1}, {"n": 2}, {"n": 3})
    path = f"/inboxes/{emulator.open_inbox('orders')}/messages"
    lease = api("POST", f"{path}/lease", {"lease_seconds": 60, "lease_limit": 2})
    assert lease.status_code == 201
    assert [each["payload"] for each in lease.json()["results"]] == [{"n": 1}, {"n": 2}]
    body = {"lease_id": lease.json()["lease_id"]}
    acked = api("POST", f"{path}/ack", {**body, "message_ids": ids[:1]})
    assert (acked.status_code, [each["id"] for each in acked.json()["results"]]) == (201, ids[:1])
    released = api("POST", f"{path}/release", body)
    assert (released.status_code, [each["id"] for each in released.json()["results"]]) == (201, ids[1:2])
    for verb, key in (("ack", "acked_id"), ("release", "released_id")):
        nothing = api("POST", f"{path}/{verb}", body)
        assert (nothing.status_code, nothing.json()) == (200, {key: None, "results": []})
    listed = api("GET", path, params={"limit": 1}).json()
    assert "count" not in listed
    assert [each["id"] for each in listed["results"]] == ids[1:2]
    assert [each["id"] for each in api.session.get(listed["next"], timeout=5).json()["results"]] == ids[2:]


def test_a_payload_may_be_what_other_encoders_reject(emulator: EmulatorServer, api: Api) -> None:
    emulator.put("orders", "\ud800", float("inf"))
    lease = api("POST", f"/inboxes/{emulator.open_inbox('orders')}/messages/lease")
    assert [each["payload"] for each in lease.json()["results"]] == ["\ud800", float("inf")]


def test_leasing_needs_no_body_and_an_empty_inbox_is_200(emulator: EmulatorServer, api: Api) -> None:
    empty = api("POST", f"/inboxes/{emulator.open_inbox('orders')}/messages/lease")
    attributes = {"status": "active", "paused_reason": None}
    expected: dict[str, Any] = {
        "lease_id": None,
        "leased_until": None,
        "results": [],
        "inbox_attributes": attributes,
    }
    assert (empty.status_code, empty.json()) == (200, expected)


def test_a_lease_that_ran_out_is_400(emulator: EmulatorServer, api: Api, clock: ManualClock) -> None:
    emulator.put("orders", {})
    path = f"/inboxes/{emulator.open_inbox('orders')}/messages"
    lease_id = api("POST", f"{path}/lease").json()["lease_id"]
    clock.advance(300)
    for verb in ("ack", "release"):
        assert error_of(api("POST", f"{path}/{verb}", {"lease_id": lease_id}))["code"] == "lease_expired"


def test_a_paused_and_drained_inbox_is_409_without_the_envelope(emulator: EmulatorServer, api: Api) -> None:
    inbox_id = emulator.open_inbox("orders")
    emulator.store.inboxes.force(inbox_id, "paused", "upstream_failures")
    response = api("POST", f"/inboxes/{inbox_id}/messages/lease")
    assert response.status_code == 409
    assert set(response.json()) == {"detail", "inbox_attributes"}
    assert set(response.json()["inbox_attributes"]) == {"status", "paused_reason", "paused_at"}


@pytest.mark.parametrize(
    ("verb", "body", "field"),
    [
        ("lease", {"lease_seconds": 0}, "lease_seconds"),
        ("lease", {"lease_seconds": 3601}, "lease_seconds"),
        ("lease", {"lease_seconds": True}, "lease_seconds"),
        ("lease", {"lease_limit": 0}, "lease_limit"),
        ("lease", {"lease_limit": 101}, "lease_limit"),
        ("ack", {}, "lease_id"),
        ("ack", {"lease_id": LEASE, "message_ids": []}, "message_ids"),
        ("ack", {"lease_id": LEASE, "message_ids": [LEASE] * 101}, "message_ids"),
        ("release", {"lease_id": LEASE.replace("-", "")}, "lease_id"),
        ("release", {"lease_id": LEASE, "message_ids": [{}]}, "message_ids"),
    ],
)
def test_arguments_of_the_wrong_kind_or_out_of_range_are_400(
    emulator: EmulatorServer, api: Api, verb: str, body: dict[str, Any], field: str
) -> None:
    error = error_of(api("POST", f"/inboxes/{emulator.open_inbox('orders')}/messages/{verb}", body))
    assert (error["status"], error["source"]) == (400, {"pointer": f"/{field}"})
    assert field in error["detail"]


@pytest.mark.parametrize("verb", ["ack", "release"])
@pytest.mark.parametrize("chosen", [17, ""])
def test_a_message_whose_id_is_no_uuid_can_be_acknowledged_and_released(
    emulator: EmulatorServer, api: Api, verb: str, chosen: Any
) -> None:
    emulator.put("orders", {}, {}, ids=[chosen, "other"])
    path = f"/inboxes/{emulator.open_inbox('orders')}/messages"
    body = {"lease_id": api("POST", f"{path}/lease").json()["lease_id"], "message_ids": [chosen]}
    ended = api("POST", f"{path}/{verb}", body)
    assert (ended.status_code, [each["id"] for each in ended.json()["results"]]) == (201, [chosen])


@pytest.mark.parametrize("data", [b"{", b"[]", b"\xff"])
def test_a_body_that_is_no_json_object_is_a_parse_error(
    emulator: EmulatorServer, api: Api, data: bytes
) -> None:
    path = f"/inboxes/{emulator.open_inbox('orders')}/messages/lease"
    headers = {"Content-Type": "application/json; charset=utf-8"}
    assert error_of(api("POST", path, data=data, headers=headers))["code"] == "parse_error"


@pytest.mark.parametrize("content_type", [None, "text/plain"])
def test_a_json_body_of_another_content_type_is_400(
    emulator: EmulatorServer, api: Api, lease_path: str, content_type: str | None
) -> None:
    headers = {"Content-Type": content_type} if content_type else {}
    error = error_of(api("POST", lease_path, data=b'{"lease_limit": 1}', headers=headers))
    assert (error["status"], error["source"]) == (400, {"header": "Content-Type"})
    assert emulator.summary("orders")["counters"]["leases"] == 0


def test_an_inbox_is_created_and_found_by_key_as_well_as_by_name(api: Api) -> None:
    inbox = api("PUT", "/inboxes", {"key": "orders", "subscription": SUBSCRIPTION}).json()
    assert (inbox["name"], inbox["key"]) == ("orders", "orders")
    both = {"key": "orders", "name": "orders", "subscription": SUBSCRIPTION}
    assert api("PUT", "/inboxes", both).json()["id"] == inbox["id"]
    for word in ("name", "key"):
        assert [each["id"] for each in api("GET", "/inboxes", params={word: "orders"}).json()["results"]] == [
            inbox["id"]
        ]


@pytest.mark.parametrize("query", [{"limit": "x"}, {"offset": "-1"}, {"status": "asleep"}])
def test_a_bad_parameter_is_named(api: Api, query: dict[str, str]) -> None:
    (name,) = query
    assert error_of(api("GET", "/inboxes", params=query))["source"] == {"parameter": name}


@pytest.mark.specification("14.4 scope", "11.4 expired", "14.4 prefix")
def test_tokens_are_checked_as_the_specification_says(emulator: EmulatorServer, api: Api) -> None:
    def ask(authorization: str) -> tuple[int, str]:
        error = error_of(api("GET", "/inboxes", headers={"Authorization": authorization}))
        return error["status"], error["code"]

    good = emulator.token()
    assert ask(good)[0] == 401
    assert ask(f"Bearer {emulator.token('workflow')}") == (401, "invalid_audience")
    assert ask("Bearer unknown") == (400, "unauthenticated")
    emulator.store.tokens.expire(good)
    assert ask(f"Bearer {good}") == (400, "unauthenticated")


def test_rate_headers_are_on_every_answer(api: Api, lease_path: str) -> None:
    client = {"client_id": "demo-client"}
    answers = [
        api("POST", lease_path),
        api("POST", lease_path),
        api("POST", lease_path, {"lease_limit": None}),
        api("GET", "/inboxes", headers={"Authorization": "none"}),
        api("GET", "/inboxes/unknown"),
        api("GET", lease_path),
        api("GET", "/nowhere"),
        api("POST", "/v2/guess", {"description": "save files"}, params=client),
        api("GET", "/v1/workflow-templates", params=client),
        api("POST", "/oauth/token"),
        api("DELETE", "/v2/promotions/7"),
        api("GET", lease_path.replace("messages/lease", "events"), stream=True),
    ]
    answers[-1].close()
    statuses = [201, 200, 400, 401, 404, 405, 404, 200, 200, 401, 403, 200]
    assert [each.status_code for each in answers] == statuses
    for answer in answers:
        limit, left = (int(answer.headers[f"X-RateLimit-{word}"]) for word in ("Limit", "Remaining"))
        assert limit - 100 < left < limit
        assert int(answer.headers["X-RateLimit-Reset"]) >= 10**9
        assert "Retry-After" not in answer.headers


@pytest.mark.specification("15 429, 503")
def test_rate_headers_come_on_success_and_retry_after_on_429(emulator: EmulatorServer, api: Api) -> None:
    emulator.store.configure(rate_limit=1, rate_window_seconds=60)
    first, second = api("GET", "/inboxes"), api("GET", "/inboxes")
    assert (first.status_code, first.headers["X-RateLimit-Remaining"]) == (200, "0")
    assert (second.status_code, second.headers["Retry-After"]) == (429, "60")
    assert second.headers["X-RateLimit-Limit"] == "1"
    assert int(second.headers["X-RateLimit-Reset"]) >= 10**9
    assert error_of(second)["code"] == "rate_limited"


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


def test_every_id_is_found_in_upper_case(emulator: EmulatorServer, api: Api) -> None:
    ids = emulator.put("orders", {"n": 1}, {"n": 2}, {"n": 3})
    inbox = emulator.open_inbox("orders").upper()
    path = f"/inboxes/{inbox}/messages"
    lease_id = api("POST", f"{path}/lease").json()["lease_id"].upper()

    released = api("POST", f"{path}/release", {"lease_id": lease_id, "message_ids": [ids[0].upper()]})
    acked = api("POST", f"{path}/ack", {"lease_id": lease_id, "message_ids": [ids[1].upper()]})
    assert [each["id"] for each in released.json()["results"]] == [ids[0]]
    assert [each["id"] for each in acked.json()["results"]] == [ids[1]]

    emulator.store.messages.set_attributes(inbox, ids[2].upper(), {"lease_count": 3})
    assert api.control("/leases/expire", inbox=inbox, lease_id=lease_id)["expired"] == 1
    assert api("GET", f"/_emulator/inboxes/{inbox}").json()["counts"]["available"] == 2
    assert api("GET", f"/inboxes/{inbox}").json()["id"] == inbox.lower()
    assert api("DELETE", f"/inboxes/{inbox}").status_code == 202
    assert api("GET", f"/inboxes/{inbox}").status_code == 404


def test_a_message_that_is_put_in_upper_case_keeps_its_spelling(emulator: EmulatorServer, api: Api) -> None:
    message_id = "0A0B0C0D-0000-4000-8000-00000000000F"
    emulator.put("orders", {}, {}, ids=[message_id, "order A"])
    path = f"/inboxes/{emulator.open_inbox('orders')}/messages"
    lease = api("POST", f"{path}/lease").json()
    assert [each["id"] for each in lease["results"]] == [message_id, "order A"]
    body = {"lease_id": lease["lease_id"], "message_ids": [message_id.lower()]}
    assert [each["id"] for each in api("POST", f"{path}/ack", body).json()["results"]] == [message_id]
    # An id that a test chose and that is no UUID has a case.
    assert api("POST", f"{path}/ack", {**body, "message_ids": ["order a"]}).status_code == 400


def test_names_of_inboxes_have_a_case(emulator: EmulatorServer) -> None:
    assert emulator.open_inbox("orders") != emulator.open_inbox("ORDERS")


def test_events_of_an_inbox_in_upper_case_arrive(emulator: EmulatorServer, api: Api) -> None:
    inbox = emulator.open_inbox("orders")
    with api("GET", f"/inboxes/{inbox.upper()}/events", stream=True) as stream:
        emulator.put("orders", {})
        assert next(stream.iter_lines()) == b'data: {"inbox_id": "%s", "count": 1}' % inbox.encode()


TEXT = {"description": "When an order comes in, send an email"}


def test_guess_needs_no_token_but_a_client_id(api: Api) -> None:
    del api.session.headers["Authorization"]
    response = api("POST", "/v2/guess", TEXT, params={"client_id": "demo-client"})
    assert response.status_code == 200
    assert api.session.get(response.json()["prefilled_url"], timeout=5).status_code == 200
    for query in ({}, {"client_id": "other"}):
        refused = api("POST", "/v2/guess", TEXT, params=query)
        assert refused.status_code == 401
        assert refused.json()["errors"][0]["source"] == {"parameter": "client_id"}


@pytest.mark.specification("13.2 400")
def test_a_text_that_is_no_workflow_is_400_with_messages(api: Api) -> None:
    response = api("POST", "/v2/guess?client_id=demo-client", {"description": "hello"})
    assert response.status_code == 400
    assert set(response.json()) == {"messages"}


def test_a_malformed_body_is_400_in_both_forms(api: Api) -> None:
    for content_type, code in (("application/json", "parse_error"), ("text/plain", "invalid")):
        headers = {"Content-Type": content_type}
        response = api("POST", "/v2/guess?client_id=demo-client", data=b"{", headers=headers)
        assert response.status_code == 400
        assert response.json()["errors"][0]["code"] == code
        assert response.json()["messages"][0]["detail"]


@pytest.mark.specification("7 templates")
def test_templates_are_a_bare_array(api: Api) -> None:
    query = {"client_id": "demo-client", "apps": "shop, mail", "limit": 1, "offset": 1}
    response = api("GET", "/v1/workflow-templates", params=query)
    assert response.status_code == 200
    assert len(response.json()) == 1
    assert len(api("GET", "/v1/workflow-templates?client_id=demo-client").json()) == 5
    assert api("GET", "/v1/workflow-templates").status_code == 401
    assert api("GET", "/v1/workflow-templates?client_id=demo-client&limit=101").status_code == 400


def test_a_user_is_unenrolled_with_an_app_token(emulator: EmulatorServer, api: Api) -> None:
    headers = {"Authorization": f"Bearer {emulator.token('promotions:write')}"}
    response = api("DELETE", "/v2/promotions/77", headers=headers)
    assert (response.status_code, response.content) == (204, b"")
    assert emulator.store.unenrolled == ["77"]
    assert api("DELETE", "/v2/promotions/77").status_code == 403


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nowhere", 404), ("GET", "/v2/guess", 405)])
def test_other_addresses_and_methods_are_errors_in_the_envelope(
    api: Api, method: str, path: str, status: int
) -> None:
    response = api(method, path)
    assert response.status_code == status
    assert response.json()["errors"][0]["status"] == status


CROSS_SITE = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "empty"}
NAVIGATION = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
PUT: tuple[str, str, Any] = ("POST", "/_emulator/messages", {"inbox": "orders", "payloads": [{}]})
REQUESTS: tuple[str, str, Any] = ("GET", "/_emulator/requests", None)
AUTHORIZE: tuple[str, str, Any] = ("GET", "/v2/authorize", None)
LIST: tuple[str, str, Any] = ("GET", "/inboxes", None)


FOREIGN: list[dict[str, str]] = [
    {"Host": "evil.example"},
    {"Host": "evil.example:8765"},
    {"Host": "localhost.evil.example"},
    {"Host": "192.0.2.1"},
    {"Host": "[::1"},
    {"Host": ""},
    {"Origin": "https://evil.example"},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": "null"},
    CROSS_SITE,
    {**CROSS_SITE, "Sec-Fetch-Site": "same-site"},
    {**NAVIGATION, "Sec-Fetch-Dest": "iframe"},
]


@pytest.mark.parametrize(
    ("request_", "headers"),
    [
        *((PUT, headers) for headers in FOREIGN),
        *((request, FOREIGN[0]) for request in (REQUESTS, AUTHORIZE, LIST, ("GET", "/nowhere", None))),
    ],
)
def test_a_page_of_another_site_reaches_nothing(
    emulator: EmulatorServer, api: Api, request_: tuple[str, str, Any], headers: dict[str, str]
) -> None:
    emulator.open_inbox("orders")
    response = api(*request_, headers=headers)
    assert response.status_code == 403
    assert response.json()["errors"][0]["detail"].endswith(".")
    assert (emulator.summary("orders")["messages"], emulator.requests) == ([], [])


def test_a_link_of_another_site_opens_pages_only(api: Api) -> None:
    assert api("GET", "/editor", headers=NAVIGATION).status_code == 200
    assert "unknown application" in api("GET", "/v2/authorize", headers=NAVIGATION).text
    for method, path in (("POST", "/v2/authorize"), ("GET", "/_emulator/requests"), ("GET", "/inboxes")):
        assert api(method, path, headers=NAVIGATION).status_code == 403


def test_its_own_pages_and_programs_are_answered(emulator: EmulatorServer, api: Api) -> None:
    own = {"Origin": emulator.base_url, "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}
    for headers in (own, {"Sec-Fetch-Site": "none"}, {"Host": "localhost:8765"}, {"Host": "[::1]"}, {}):
        assert api(*REQUESTS, headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("listening", "host", "status"),
    [
        ("127.0.0.1", "workflow.test", 403),
        ("0.0.0.0", "workflow.test", 403),
        ("0.0.0.0", "192.0.2.1:8765", 200),
        ("localhost", "localhost", 200),
        (socket.gethostname(), f"{socket.gethostname().upper()}:8765", 200),
    ],
)
def test_the_names_of_the_option_host_are_its_own(listening: str, host: str, status: int) -> None:
    try:
        address = socket.gethostbyname(listening).replace("0.0.0.0", "127.0.0.1")
    except OSError:
        pytest.skip(f"{listening} has no address")
    with EmulatorServer(host=listening) as server:
        url = f"http://{address}:{server.port}/_emulator/requests"
        assert requests.get(url, headers={"Host": host}, timeout=5).status_code == status


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_it_listens_on_ipv6_for_both_clients_of_the_package() -> None:
    async def status_of(url: str) -> int:
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            return response.status

    with EmulatorServer(host="::1") as server:
        url = f"{server.base_url}/_emulator/requests"
        assert server.base_url == f"http://[::1]:{server.port}"
        assert requests.get(url, timeout=5).status_code == 200
        assert asyncio.run(status_of(url)) == 200
