"""Calls and their arguments: what is sent, and what is rejected before it is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import pytest

from airflow_provider_workflow.client import api, inboxes
from airflow_provider_workflow.client.errors import ConflictError, GuessRejectedError, NotFoundError
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.client.calls import SUBSCRIPTION
from tests.unit.client.conftest import MakeSender, settings_of
from tests.unit.client.senders import Sender


@pytest.fixture
def inbox(emulator: EmulatorServer) -> str:
    return emulator.open_inbox("orders")


@pytest.mark.specification("13.1 200")
def test_guess_returns_a_suggestion(send: Sender, emulator: EmulatorServer) -> None:
    guess = send(api.guess("Send an email for each new order in the shop"))
    assert guess["title"]
    assert guess["steps"][0]["step"]["app"]
    assert guess["prefilled_url"].startswith(emulator.base_url)


@pytest.mark.specification("13.1 client_id", "14.1 client identifier")
def test_guess_needs_no_token_and_names_the_client(send: Sender, emulator: EmulatorServer) -> None:
    send(api.guess("Send an email"))
    (request,) = emulator.requests
    assert "authorization" not in request.headers
    assert parse_qs(request.query) == {"client_id": [emulator.client_id]}


@pytest.mark.specification("13.2 400")
def test_a_text_that_is_no_workflow_is_rejected_with_its_messages(send: Sender) -> None:
    with pytest.raises(GuessRejectedError, match="does not describe a workflow") as rejected:
        send(api.guess("Good morning"))
    assert rejected.value.status == 400
    assert rejected.value.messages[0]["detail"] == rejected.value.detail


def test_templates_come_as_a_page(send: Sender) -> None:
    first = send(api.list_templates(limit=3))
    rest = send(api.list_templates(limit=2, offset=1))
    assert [each["id"] for each in rest] == [each["id"] for each in first[1:]]


def test_templates_of_some_apps(send: Sender) -> None:
    found = send(api.list_templates(apps=["mail", "chat"]))
    assert len(found) == 2
    assert all({step["slug"] for step in each["steps"]} == {"mail", "chat"} for each in found)


@pytest.mark.specification("14.1 app access token")
def test_unenrolling_uses_a_token_of_its_own_scope(send: Sender, emulator: EmulatorServer) -> None:
    assert send(api.unenroll_promotion("one é+%")) is None
    assert b"promotions:write" in emulator.requests[0].body
    assert emulator.store.unenrolled == ["one é+%"]


@pytest.mark.specification("9.1 credentials")
def test_an_app_token_is_issued_by_basic_and_multipart(send: Sender, emulator: EmulatorServer) -> None:
    token = send(api.app_token("external"))
    assert token["token_type"] == "Bearer"
    assert "refresh_token" not in token
    (request,) = emulator.requests
    assert request.headers["authorization"].startswith("Basic ")
    assert request.headers["content-type"].startswith("multipart/form-data; boundary=")


@pytest.mark.specification("9.1 authorization code", "9.1 refresh")
def test_a_code_becomes_user_tokens_which_refresh(send: Sender, emulator: EmulatorServer) -> None:
    redirect = emulator.store.settings.redirect_uris[0]
    query = {"redirect_uri": redirect, "scope": "workflow", "state": "s"}
    answer = emulator.store.tokens.approve(query)
    code = parse_qs(urlsplit(answer).query)["code"][0]
    first = send(api.exchange_code(code, redirect))
    second = send(api.refresh_user_token(first["refresh_token"]))
    assert second["access_token"] != first["access_token"]
    assert second["refresh_token"] != first["refresh_token"]


@pytest.mark.specification(
    "10 response_type", "10 client_id", "10 redirect_uri", "10 scope", "10 response_mode", "10 state"
)
def test_the_authorization_url_brings_all_that_the_page_asks_for(settings: Settings) -> None:
    url = api.authorization_url(settings, scope="workflow authentication", state="a&b", utm_source="x y")
    parts = urlsplit(url)
    assert parts.path == "/v2/authorize"
    assert {name: values[0] for name, values in parse_qs(parts.query).items()} == {
        "response_type": "code",
        "client_id": settings.client_id,
        "redirect_uri": settings.redirect_uri,
        "scope": "workflow authentication",
        "response_mode": "query",
        "state": "a&b",
        "utm_source": "x y",
    }


def test_the_authorization_url_names_what_the_connection_lacks() -> None:
    with pytest.raises(ValueError, match=r"^auth_url is missing"):
        api.authorization_url(Settings("https://a", "i", "s", "https://t"), scope="x", state="y")
    with pytest.raises(ValueError, match=r"^redirect_uri is missing"):
        api.authorization_url(
            Settings("https://a", "i", "s", "https://t", auth_url="https://a"), scope="x", state="y"
        )


@pytest.mark.specification("2.1 inbox")
def test_an_inbox_lives_from_creation_to_deletion(send: Sender) -> None:
    made = send(api.create_inbox(SUBSCRIPTION, "new", "https://example.com/a"))
    assert made["subscription"]["connection_id"] == 7
    assert send(api.get_inbox(made["id"]))["status"] == "active"
    assert send(api.update_inbox(made["id"], None))["notification_url"] is None
    assert send(api.pause_inbox(made["id"]))["paused_reason"] == "user"
    assert send(api.resume_inbox(made["id"]))["id"] == made["id"]
    assert send(api.delete_inbox(made["id"]))["id"] == made["id"]
    with pytest.raises(NotFoundError):
        send(api.get_inbox(made["id"]))


@pytest.mark.specification("11.2 409")
def test_ensuring_creates_once_and_refuses_another_subscription(send: Sender) -> None:
    made = send(api.ensure_inbox("mine", SUBSCRIPTION))
    assert send(api.ensure_inbox("mine", SUBSCRIPTION))["id"] == made["id"]
    with pytest.raises(ConflictError, match="different subscription"):
        send(api.ensure_inbox("mine", {**SUBSCRIPTION, "action_key": "other"}))
    with pytest.raises(ConflictError):
        send(api.create_inbox(SUBSCRIPTION, "mine"))


def test_listing_inboxes_filters_by_status_and_name(send: Sender, emulator: EmulatorServer) -> None:
    for name in ("a", "b & c/d?é+%"):
        emulator.open_inbox(name)
    assert [each["name"] for each in send(api.list_inboxes(name="b & c/d?é+%"))["results"]] == ["b & c/d?é+%"]
    assert send(api.list_inboxes(status="paused"))["results"] == []
    page = send(api.list_inboxes(limit=1))
    assert page["count"] == 2
    assert page["next"].startswith(emulator.base_url)


def test_messages_are_leased_acknowledged_and_gone(
    send: Sender, emulator: EmulatorServer, inbox: str
) -> None:
    ids = emulator.put("orders", {"n": 1}, {"n": 2})
    lease = send(api.lease_messages(inbox, lease_limit=100, lease_seconds=60))
    assert [each["id"] for each in lease["results"]] == ids
    assert lease["results"][0]["payload"] == {"n": 1}
    acked = send(api.acknowledge_messages(inbox, lease["lease_id"], ids[:1]))
    assert [each["id"] for each in acked["results"]] == ids[:1]
    assert send(api.acknowledge_messages(inbox, lease["lease_id"]))["acked_id"]
    assert send(api.list_messages(inbox))["results"] == []


def test_released_messages_come_again(send: Sender, emulator: EmulatorServer, inbox: str) -> None:
    (sent,) = emulator.put("orders", {})
    lease = send(api.lease_messages(inbox))
    released = send(api.release_messages(inbox, lease["lease_id"], [sent]))
    assert released["released_id"]
    assert send(api.lease_messages(inbox))["results"][0]["id"] == sent


def test_an_empty_inbox_leases_nothing(send: Sender, inbox: str) -> None:
    lease = send(api.lease_messages(inbox))
    assert lease["lease_id"] is None
    assert lease["results"] == []
    assert lease["inbox_attributes"]["status"] == "active"


def test_an_unknown_lease_is_acknowledged_as_nothing(send: Sender, inbox: str) -> None:
    assert send(api.acknowledge_messages(inbox, str(UUID(int=0))))["acked_id"] is None


def test_the_cursor_leads_from_page_to_page(send: Sender, emulator: EmulatorServer, inbox: str) -> None:
    ids = emulator.put("orders", {}, {}, {})
    first = send(api.list_messages(inbox, limit=2))
    assert "payload" not in first["results"][0]
    second = send(api.list_messages(inbox, api.next_cursor(first), 2))
    assert [each["id"] for each in first["results"] + second["results"]] == ids
    assert api.next_cursor(second) is None


def test_the_other_published_prefix_is_a_setting(make_send: MakeSender, emulator: EmulatorServer) -> None:
    inbox = emulator.open_inbox("orders")
    send = make_send(settings_of(emulator, inbox_path="/trigger-inbox/api/v1"))
    assert send(api.get_inbox(inbox))["name"] == "orders"
    assert emulator.requests[-1].path.startswith("/trigger-inbox/api/v1/")


@pytest.mark.parametrize("given", [{}, {"inputs": None}, {"inputs": {}}])
def test_an_inbox_without_inputs_is_sent_with_an_empty_object(given: dict[str, Any]) -> None:
    wanted: Any = {"app_key": "shop", "action_key": "new_order", **given}

    for call in (api.create_inbox(wanted, "orders"), api.ensure_inbox("orders", wanted)):
        assert call.json is not None
        assert call.json["subscription"] == {"app_key": "shop", "action_key": "new_order", "inputs": {}}


def test_an_inbox_is_named_by_both_words_for_its_name_or_by_none() -> None:
    wanted: Any = {"app_key": "shop", "action_key": "new_order", "inputs": {"region": "eu"}}

    for call in (api.create_inbox(wanted, "orders"), api.ensure_inbox("orders", wanted)):
        assert call.json == {"subscription": wanted, "name": "orders", "key": "orders"}
    assert api.create_inbox(wanted).json == {"subscription": wanted}


def test_inputs_that_are_no_object_are_refused_before_anything_is_sent() -> None:
    wanted: Any = {"app_key": "shop", "action_key": "new_order", "inputs": "region"}

    with pytest.raises(ValueError, match=r"subscription\.inputs must be an object"):
        api.create_inbox(wanted)


LEASE: Any = {"inbox_id": "i", "lease_id": "l"}
TOO_MANY = [str(n) for n in range(101)]

REFUSED: dict[str, tuple[Callable[[], Any], str, str]] = {
    "lease of 0 s": (lambda: api.lease_messages("i", lease_seconds=0), "lease_seconds", "1 to 3600"),
    "lease of 3601 s": (lambda: api.lease_messages("i", lease_seconds=3601), "lease_seconds", "1 to 3600"),
    "lease of True s": (lambda: api.lease_messages("i", lease_seconds=True), "lease_seconds", "1 to 3600"),
    "lease of 1.5 s": (lambda: api.lease_messages("i", lease_seconds=1.5), "lease_seconds", "1 to 3600"),
    "lease of no messages": (lambda: api.lease_messages("i", lease_limit=0), "lease_limit", "1 to 100"),
    "lease of 101 messages": (lambda: api.lease_messages("i", lease_limit=101), "lease_limit", "1 to 100"),
    "lease of nowhere": (lambda: api.lease_messages(""), "inbox_id", "not empty"),
    "no text of an address": (lambda: api.get_inbox("a\ud800"), "inbox_id", "lone surrogates"),
    "no text of a query": (lambda: api.list_inboxes(name="a\ud800"), "name", "lone surrogates"),
    "path that climbs": (lambda: api.get_inbox(".."), "inbox_id", "'..'"),
    "no ids": (lambda: api.acknowledge_messages(**LEASE, message_ids=[]), "message_ids", "1 to 100"),
    "101 ids": (lambda: api.release_messages(**LEASE, message_ids=TOO_MANY), "message_ids", "1 to 100"),
    "ids as one text": (lambda: api.acknowledge_messages(**LEASE, message_ids="m"), "message_ids", "a list"),
    "an id that is none": (
        lambda: api.acknowledge_messages(**LEASE, message_ids=["m", None]),
        "message_ids",
        "not empty",
    ),
    "no lease id": (lambda: api.acknowledge_messages("i", ""), "lease_id", "not empty"),
    "empty description": (lambda: api.guess("  "), "description", "not empty"),
    "description that is no text": (lambda: api.guess(None), "description", "not empty"),
    "0 templates": (lambda: api.list_templates(limit=0), "limit", "1 to 100"),
    "101 templates": (lambda: api.list_templates(limit=101), "limit", "1 to 100"),
    "templates before the first": (lambda: api.list_templates(offset=-1), "offset", "0 to"),
    "apps as one text": (lambda: api.list_templates(apps="mail"), "apps", "a list"),
    "an empty app": (lambda: api.list_templates(apps=[""]), "apps", "not empty"),
    "101 inboxes": (lambda: api.list_inboxes(limit=101), "limit", "1 to 100"),
    "101 messages": (lambda: api.list_messages("i", limit=101), "limit", "1 to 100"),
    "a long name": (lambda: api.ensure_inbox("n" * 101, SUBSCRIPTION), "name", "at most 100"),
    "an empty name": (lambda: api.create_inbox(SUBSCRIPTION, ""), "name", "not empty"),
    "a long url": (
        lambda: api.update_inbox("i", "https://" + "u" * 2048),
        "notification_url",
        "at most 2048",
    ),
    "no subscription": (lambda: api.create_inbox(None), "subscription", "an object"),
    "no app": (lambda: api.create_inbox({"action_key": "a"}), "subscription.app_key", "not empty"),
    "no action": (lambda: api.create_inbox({"app_key": "a"}), "subscription.action_key", "not empty"),
    "no code": (lambda: api.exchange_code("", "https://b"), "code", "not empty"),
    "no redirect": (lambda: api.exchange_code("c", ""), "redirect_uri", "not empty"),
    "no refresh token": (lambda: api.refresh_user_token(""), "refresh_token", "not empty"),
    "no scope": (lambda: api.app_token(" "), "scope", "not empty"),
    "no enrollment": (lambda: api.unenroll_promotion(""), "enrollment_id", "not empty"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_argument_out_of_range_is_named_with_its_range(case: str) -> None:
    make, field, bounds = REFUSED[case]
    with pytest.raises(ValueError) as refused:
        make()
    assert str(refused.value).startswith(field)
    assert bounds in str(refused.value)


def test_ids_that_the_service_made_are_taken_as_they_are() -> None:
    call = api.acknowledge_messages("i", " ", ["\n", "\ud800", "x" * 5000])
    assert call.json == {"lease_id": " ", "message_ids": ["\n", "\ud800", "x" * 5000]}


def test_arguments_are_checked_before_a_name_is_looked_up(send: Sender, emulator: EmulatorServer) -> None:
    exchange = inboxes.at_inbox(
        send.client.settings, "by-name", lambda inbox_id: api.lease_messages(inbox_id, lease_seconds=0)
    )
    with pytest.raises(ValueError, match="lease_seconds must be a whole number from 1 to 3600, not 0"):
        send.run(exchange)
    assert emulator.requests == []


@pytest.mark.parametrize("limit", [0, -1, True, 1.5])
def test_a_limit_of_templates_is_checked_before_anything_is_sent(
    send: Sender, emulator: EmulatorServer, limit: Any
) -> None:
    with pytest.raises(ValueError, match="limit must be"):
        send.run(inboxes.all_templates(None, limit))
    assert emulator.requests == []


@pytest.mark.parametrize("secret", ["refresh_token", "code"])
def test_a_secret_argument_is_not_repeated_in_the_error(secret: str) -> None:
    with pytest.raises(ValueError) as refused:
        api.exchange_code(["hush"], "x") if secret == "code" else api.refresh_user_token(["hush"])
    assert "hush" not in str(refused.value)
