"""The routes, pages and event stream of the emulator."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from html import unescape
from typing import Any
from unittest.mock import Mock
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.emulator.conftest import BASIC, PAGE, Api


def test_a_failure_of_the_emulator_itself_is_a_500_of_the_specification(
    emulator: EmulatorServer, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emulator.store.inboxes, "page", Mock(side_effect=RuntimeError("broken on purpose")))
    response = api("GET", "/inboxes")
    (error,) = response.json()["errors"]
    assert (response.status_code, error["status"], error["code"]) == (500, 500, "error")
    assert error["meta"]["full_details"] == {"message": "broken on purpose", "code": "RuntimeError"}


def error_of(response: Any) -> dict[str, Any]:
    (error,) = response.json()["errors"]
    assert error["status"] == response.status_code
    assert error["detail"]
    return dict(error)


def test_ensure_creates_finds_or_refuses(api: Api) -> None:
    other = {"app_key": "ShopAPI@2.1.0", "action_key": "order", "inputs": {}, "connection_id": None}
    body = {"name": "orders", "subscription": {"app_key": "my-shop", "action_key": "order", "inputs": {}}}
    first, second = api("PUT", "/inboxes", body), api("PUT", "/inboxes", body)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]
    assert first.json()["subscription"]["app_key"] == "MyShopAPI@1.0.0"
    assert api("PUT", "/inboxes", {**body, "subscription": other}).status_code == 409
    assert error_of(api("PUT", "/inboxes", {"subscription": other}))["source"] == {"pointer": "/name"}


def test_a_deleted_inbox_is_gone_at_once_by_default_and_its_name_is_free(api: Api) -> None:
    body = {"name": "orders", "subscription": {"app_key": "my-shop", "action_key": "order", "inputs": {}}}
    inbox_id = api("PUT", "/inboxes", body).json()["id"]
    assert api("DELETE", f"/inboxes/{inbox_id}").status_code == 202
    assert api("GET", f"/inboxes/{inbox_id}").status_code == 404
    assert api("PUT", "/inboxes", body).json()["id"] != inbox_id


def test_a_body_that_is_no_json_object_is_a_parse_error(emulator: EmulatorServer, api: Api) -> None:
    path = f"/inboxes/{emulator.open_inbox('orders')}/messages/lease"
    headers = {"Content-Type": "application/json; charset=utf-8"}
    for data in (b"{", b"[]", b"\xff"):
        assert error_of(api("POST", path, data=data, headers=headers))["code"] == "parse_error"


def test_a_bad_parameter_is_named(api: Api) -> None:
    for name, value in {"limit": "x", "offset": "-1", "status": "asleep"}.items():
        error = error_of(api("GET", "/inboxes", params={name: value}))
        assert error["source"] == {"parameter": name}


@pytest.mark.specification("15 429, 503")
def test_rate_headers_come_on_success_and_retry_after_on_429(emulator: EmulatorServer, api: Api) -> None:
    emulator.store.configure(rate_limit=1, rate_window_seconds=60)
    first, second = api("GET", "/inboxes"), api("GET", "/inboxes")
    assert (first.status_code, first.headers["X-RateLimit-Remaining"]) == (200, "0")
    assert (second.status_code, second.headers["Retry-After"]) == (429, "60")
    assert second.headers["X-RateLimit-Limit"] == "1"
    assert int(second.headers["X-RateLimit-Reset"]) >= 10**9
    assert error_of(second)["code"] == "rate_limited"


QUERY = {**PAGE, "state": '"><script>', "utm_source": "airflow"}
GRANT = {"grant_type": "client_credentials", "scope": "external"}


@pytest.mark.specification("9.1 credentials", "9.1 not stored")
@pytest.mark.parametrize(("slash", "multipart", "basic"), [("/", False, True), ("", True, False)])
def test_the_token_endpoint_takes_every_form(
    emulator: EmulatorServer, api: Api, slash: str, multipart: bool, basic: bool
) -> None:
    del api.session.headers["Authorization"]
    fields = GRANT if basic else {**GRANT, "client_id": BASIC[0], "client_secret": BASIC[1]}
    body = (
        {"files": {name: (None, value) for name, value in fields.items()}} if multipart else {"data": fields}
    )
    path = urlsplit(emulator.token_url).path.removesuffix("/") + slash
    response = api("POST", path, auth=BASIC if basic else None, **body)
    assert response.status_code == 200
    assert (response.headers["Cache-Control"], response.headers["Pragma"]) == ("no-store", "no-cache")
    token = response.json()
    assert set(token) == {"access_token", "expires_in", "token_type", "scope"}
    assert (token["expires_in"], token["token_type"], token["scope"]) == (36000, "Bearer", "external")


@pytest.mark.parametrize(
    "body",
    [b"", b"--b\r\nrubbish", b"--b\r\nContent-Disposition: form-data\r\n\r\na part without a name\r\n--b--"],
)
def test_a_malformed_form_is_an_empty_one(api: Api, body: bytes) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    response = api("POST", "/oauth/token", auth=BASIC, data=body, headers=headers)
    assert (response.status_code, response.json()["error"]) == (400, "invalid_request")


def test_the_page_repeats_its_parameters_and_no_markup(api: Api) -> None:
    page = api("GET", "/v2/authorize", params=QUERY)
    assert page.status_code == 200
    assert "<script>" not in page.text
    fields = dict(re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', page.text))
    assert {unescape(name): unescape(value) for name, value in fields.items()} == QUERY


def test_a_user_may_deny_and_a_code_is_used_once(api: Api) -> None:
    denied = api("POST", "/v2/authorize", data={**QUERY, "decision": "deny"})
    assert parse_qs(urlsplit(denied.headers["Location"]).query)["error"] == ["access_denied"]

    approved = api("POST", "/v2/authorize", data={**QUERY, "decision": "approve"})
    (code,) = parse_qs(urlsplit(approved.headers["Location"]).query)["code"]
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": QUERY["redirect_uri"]}
    answers = [api("POST", "/oauth/token", auth=BASIC, data=form) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 400]
    assert answers[1].json()["error"] == "invalid_grant"


def test_other_faults_are_told_to_the_redirect_uri(api: Api) -> None:
    response = api("GET", "/v2/authorize", params={**QUERY, "scope": "everything"})
    answer = parse_qs(urlsplit(response.headers["Location"]).query)
    assert answer == {"error": ["invalid_scope"], "state": [QUERY["state"]]}


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


STEP_FIELDS = {
    *("id", "uuid", "title", "slug", "description", "image", "images", "hex_color", "api", "url", "label")
}


@pytest.mark.specification("7 templates")
def test_each_step_of_a_template_has_every_field_of_the_service(api: Api) -> None:
    templates = api("GET", "/v1/workflow-templates?client_id=demo-client&limit=100").json()
    steps = [step for template in templates for step in template["steps"]]
    assert len({step["uuid"] for step in steps}) == 2 * len(templates) == 200
    for step in steps:
        assert set(step) == STEP_FIELDS
        assert step["description"]
        assert re.fullmatch("[0-9a-f]{6}", step["hex_color"])
        assert {step["image"], *step["images"].values()} == {step["image"]}
        assert step["image"].startswith(api.server.base_url)


def guess_steps(api: Api, description: str) -> list[dict[str, Any]]:
    response = api("POST", "/v2/guess?client_id=demo-client", {"description": description})
    assert response.status_code == 200
    steps: list[dict[str, Any]] = response.json()["steps"]
    return steps


@pytest.mark.specification("13.1 200")
def test_a_guess_may_have_a_step_without_a_title(api: Api) -> None:
    first, second = guess_steps(api, "When no-title happens, send an email to no-title")
    assert first["step"] == {"title": None, "app": "No Title", "api": "NoTitleAPI@1.0.0"}
    assert second["step"]["title"] == "Send Email"
    assert [len(step["alternatives"]) for step in (first, second)] == [2, 2]


@pytest.mark.specification("13.1 200")
def test_a_guess_may_have_a_step_without_alternatives(api: Api) -> None:
    first, second = guess_steps(api, "When an email comes, save it to no-alternatives")
    assert len(first["alternatives"]) == 2
    assert second["step"]["api"] == "NoAlternativesAPI@1.0.0"
    assert second["step"]["title"]
    assert second["alternatives"] == []


def test_templates_have_every_field_and_pages_cover_each_once(api: Api) -> None:
    templates: list[Any] = []
    query = {"client_id": "demo-client", "limit": 100}
    while page := api("GET", "/v1/workflow-templates", params={**query, "offset": len(templates)}).json():
        templates += page
    assert len({template["id"] for template in templates}) == len(templates) == 14 * 13
    fields = "id title slug status description description_plain description_raw url create_url type steps"
    assert set(templates[0]) == set(fields.split())
    assert set(templates[0]["steps"][0]) == STEP_FIELDS


@pytest.mark.parametrize(
    "names", [{"name": " "}, {"name": "x" * 101}, {"name": 5}, {"name": "orders", "key": "invoices"}]
)
def test_a_name_that_is_none_or_two_is_refused(api: Api, names: dict[str, Any]) -> None:
    subscription = {"app_key": "my-shop", "action_key": "order", "inputs": {}}
    response = api("PUT", "/inboxes", {**names, "subscription": subscription})
    assert response.status_code == 400
    assert re.search("name|key", error_of(response)["detail"])


def test_requests_are_logged_with_their_status_and_control_is_not(api: Api) -> None:
    api("GET", "/inboxes", params={"limit": 5})
    api("GET", "/nowhere")
    answer = api("GET", "/_emulator/requests").json()
    assert answer["counts"] == {"list_inboxes": 1, "unknown": 1}
    first, second = answer["requests"]
    assert (first["method"], first["query"], first["status"]) == ("GET", "limit=5", 200)
    assert first["headers"]["authorization"].startswith("Bearer ")
    assert second["status"] == 404


def test_answers_are_dated_by_the_clock_of_the_emulator(
    emulator: EmulatorServer, api: Api, clock: ManualClock
) -> None:
    assert api("GET", "/inboxes").headers["Date"] == "Thu, 01 Jan 2026 00:00:00 GMT"
    clock.advance(61)
    assert api("GET", "/inboxes").headers["Date"] == "Thu, 01 Jan 2026 00:01:01 GMT"
    dated = "Fri, 02 Jan 2026 00:00:00 GMT"
    emulator.fault("status", operation="list_inboxes", status=503, headers={"Date": dated})
    assert api("GET", "/inboxes").headers["Date"] == dated


def test_other_addresses_and_methods_are_errors_in_the_envelope(api: Api) -> None:
    assert error_of(api("GET", "/nowhere"))["status"] == 404
    assert error_of(api("GET", "/v2/guess"))["status"] == 405


CROSS_SITE = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "empty"}
NAVIGATION = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
PUT: tuple[str, str, Any] = ("POST", "/_emulator/messages", {"inbox": "orders", "payloads": [{}]})
REQUESTS: tuple[str, str, Any] = ("GET", "/_emulator/requests", None)
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


def test_a_page_of_another_site_reaches_nothing(emulator: EmulatorServer, api: Api) -> None:
    emulator.open_inbox("orders")
    other_requests = REQUESTS, ("GET", "/v2/authorize", None), LIST, ("GET", "/nowhere", None)
    for request, headers in [
        *((PUT, site) for site in FOREIGN),
        *((site, FOREIGN[0]) for site in other_requests),
    ]:
        response = api(*request, headers=headers)
        assert response.status_code == 403, (request, headers)
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


@pytest.fixture
def listen(emulator: EmulatorServer, api: Api) -> Iterator[Callable[..., requests.Response]]:
    """Open the event stream of an inbox."""
    responses: list[requests.Response] = []

    def start(name: str = "orders", token: str | None = None) -> requests.Response:
        headers = {"Authorization": f"Bearer {token or emulator.token()}"}
        path = f"/trigger-inbox/v1/inboxes/{emulator.open_inbox(name)}/events"
        response = requests.get(emulator.base_url + path, headers=headers, stream=True, timeout=5)
        responses.append(response)
        return response

    yield start
    for response in responses:
        response.close()


def test_silence_is_broken_by_comments(clock: ManualClock, listen: Callable[..., requests.Response]) -> None:
    lines = listen().iter_lines(chunk_size=1)
    for _ in range(2):
        clock.advance(15)
        assert [next(lines), next(lines)] == [b": keep-alive", b""]


def test_the_stream_ends_when_its_token_is_ended(
    emulator: EmulatorServer, listen: Callable[..., requests.Response]
) -> None:
    token = emulator.token()
    response, other = listen(token=token), listen()
    emulator.store.tokens.expire(token)
    assert response.content == b""
    emulator.put("orders", {})
    assert json.loads(next(other.iter_lines(chunk_size=1)).removeprefix(b"data: "))["count"] == 1


def test_streams_are_counted_and_end_with_a_reset(api: Api, listen: Callable[..., requests.Response]) -> None:
    first, second = listen("orders"), listen("other")
    assert api("GET", "/_emulator/requests").json()["streams"] == 2
    api.control("/reset")
    assert (first.content, second.content) == (b"", b"")
    assert api("GET", "/_emulator/requests").json()["streams"] == 0
