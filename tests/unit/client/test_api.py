"""Calls and their arguments: what is sent, what is rejected before it is sent, and listings of pages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import parse_qs

import pytest

from airflow_provider_workflow.client import api, inboxes
from airflow_provider_workflow.client.call import Call
from airflow_provider_workflow.client.errors import ConflictError, NotFoundError, TransportError
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.client.calls import SUBSCRIPTION
from tests.unit.client.conftest import MakeSender
from tests.unit.client.scripted_server import ScriptedServer, answer
from tests.unit.client.senders import Sender


def test_the_authorization_url_names_what_the_connection_lacks() -> None:
    with pytest.raises(ValueError, match=r"^auth_url is missing"):
        api.authorization_url(Settings("https://a", "i", "s", "https://t"), scope="x", state="y")
    with pytest.raises(ValueError, match=r"^redirect_uri is missing"):
        api.authorization_url(
            Settings("https://a", "i", "s", "https://t", auth_url="https://a"), scope="x", state="y"
        )


@pytest.mark.parametrize("name", ["redirect_uri", "client_id", "response_type", "response_mode"])
def test_the_optional_parameters_of_the_authorization_url_replace_none_of_its_own(name: str) -> None:
    """``exchange_code`` sends the redirect_uri of the connection: another one fails after the consent."""
    settings = Settings("https://a", "i", "s", "https://t", auth_url="https://a", redirect_uri="https://a/cb")
    with pytest.raises(ValueError, match=rf"^{name} is no optional parameter"):
        api.authorization_url(settings, scope="x", state="y", **{name: "https://other/cb"})


@pytest.mark.specification("7 templates", "13.1 body", "13.1 200", "13.1 client_id", "14.1 client identifier")
def test_guess_and_templates_send_the_client_id_and_no_token(send: Sender, emulator: EmulatorServer) -> None:
    guess = send(api.guess("Send an émail for each new order in the shop"))
    assert guess["steps"][0]["step"]["app"]
    assert guess["steps"][0]["alternatives"][0]["api"]
    assert guess["prefilled_url"].startswith(emulator.base_url)
    assert len(send(api.list_templates(limit=1))) == 1
    guess_request, listing_request = emulator.requests
    assert guess_request.headers["content-type"] == "application/json"
    assert json.loads(guess_request.body) == {"description": "Send an émail for each new order in the shop"}
    for request in (guess_request, listing_request):
        assert "authorization" not in request.headers
        assert parse_qs(request.query)["client_id"] == [emulator.client_id]


@pytest.mark.specification("2.1 inbox")
def test_an_inbox_lives_from_creation_to_deletion(send: Sender) -> None:
    inbox = send(api.create_inbox(SUBSCRIPTION, "new", "https://example.com/a"))
    assert inbox["subscription"]["connection_id"] == 7
    assert send(api.get_inbox(inbox["id"]))["status"] == "active"
    assert send(api.update_inbox(inbox["id"], None))["notification_url"] is None
    assert send(api.pause_inbox(inbox["id"]))["paused_reason"] == "user"
    assert send(api.resume_inbox(inbox["id"]))["id"] == inbox["id"]
    assert send(api.delete_inbox(inbox["id"]))["id"] == inbox["id"]
    with pytest.raises(NotFoundError):
        send(api.get_inbox(inbox["id"]))


@pytest.mark.specification("11.2 409")
def test_ensuring_creates_once_and_refuses_another_subscription(send: Sender) -> None:
    inbox = send(api.ensure_inbox("mine", SUBSCRIPTION))
    assert send(api.ensure_inbox("mine", SUBSCRIPTION))["id"] == inbox["id"]
    with pytest.raises(ConflictError, match="different subscription"):
        send(api.ensure_inbox("mine", {**SUBSCRIPTION, "action_key": "other"}))
    with pytest.raises(ConflictError):
        send(api.create_inbox(SUBSCRIPTION, "mine"))


@pytest.mark.parametrize("fields", [{}, {"inputs": None}, {"inputs": {}}, {"inputs": {"region": "eu"}}])
def test_a_new_inbox_has_both_words_for_its_name_or_none_and_its_inputs_are_an_object(
    fields: dict[str, Any],
) -> None:
    subscription_arguments: Any = {"app_key": "shop", "action_key": "new_order", **fields}
    subscription = {**subscription_arguments, "inputs": fields.get("inputs") or {}}
    for call in (
        api.create_inbox(subscription_arguments, "orders"),
        api.ensure_inbox("orders", subscription_arguments),
    ):
        assert call.json == {"subscription": subscription, "name": "orders", "key": "orders"}
    assert api.create_inbox(subscription_arguments).json == {"subscription": subscription}


def test_arguments_are_checked_before_a_name_is_looked_up(send: Sender, emulator: EmulatorServer) -> None:
    make = partial(api.lease_messages, lease_seconds=0)
    with pytest.raises(ValueError, match="lease_seconds must be a whole number from 1 to 3600, not 0"):
        send.run(inboxes.at_inbox, "orders", make)
    assert emulator.requests == []


LEASE: Any = {"inbox_id": "i", "lease_id": "l"}
TOO_MANY = [str(n) for n in range(101)]

APP = {"app_key": "a", "action_key": "b"}
REFUSED: dict[str, tuple[Callable[[], Any], str, str]] = {
    "lease of 0 s": (lambda: api.lease_messages("i", lease_seconds=0), "lease_seconds", "1 to 3600"),
    "lease of 3601 s": (lambda: api.lease_messages("i", lease_seconds=3601), "lease_seconds", "1 to 3600"),
    "lease of True s": (lambda: api.lease_messages("i", lease_seconds=True), "lease_seconds", "1 to 3600"),
    "lease of 1.5 s": (lambda: api.lease_messages("i", lease_seconds=1.5), "lease_seconds", "1 to 3600"),
    "lease of 101 messages": (lambda: api.lease_messages("i", lease_limit=101), "lease_limit", "1 to 100"),
    "lease of nowhere": (lambda: api.lease_messages(""), "inbox_id", "not empty"),
    "no text of an address": (lambda: api.get_inbox("a\ud800"), "inbox_id", "lone surrogates"),
    "no text of a query": (lambda: api.list_inboxes(name="a\ud800"), "name", "lone surrogates"),
    "path that climbs": (lambda: api.get_inbox(".."), "inbox_id", "'..'"),
    "no ids": (lambda: api.acknowledge_messages(**LEASE, message_ids=[]), "message_ids", "1 to 100"),
    "101 ids": (lambda: api.release_messages(**LEASE, message_ids=TOO_MANY), "message_ids", "1 to 100"),
    "ids as one text": (lambda: api.acknowledge_messages(**LEASE, message_ids="m"), "message_ids", "a list"),
    "no id": (lambda: api.release_messages(**LEASE, message_ids=["m", None]), "message_ids", "not empty"),
    "no lease id": (lambda: api.acknowledge_messages("i", ""), "lease_id", "not empty"),
    "empty description": (lambda: api.guess("  "), "description", "not empty"),
    "101 templates": (lambda: api.list_templates(limit=101), "limit", "1 to 100"),
    "templates before the first": (lambda: api.list_templates(offset=-1), "offset", "0 to"),
    "apps as one text": (lambda: api.list_templates(apps="mail"), "apps", "a list"),
    "an empty app": (lambda: api.list_templates(apps=[""]), "apps", "not empty"),
    "101 inboxes": (lambda: api.list_inboxes(limit=101), "limit", "1 to 100"),
    "101 messages": (lambda: api.list_messages("i", limit=101), "limit", "1 to 100"),
    "a long name": (lambda: api.ensure_inbox("n" * 101, SUBSCRIPTION), "name", "at most 100"),
    "an empty name": (lambda: api.create_inbox(SUBSCRIPTION, ""), "name", "not empty"),
    "a long url": (lambda: api.update_inbox("i", "u" * 2049), "notification_url", "at most 2048"),
    "no subscription": (lambda: api.create_inbox(None), "subscription", "an object"),
    "no app": (lambda: api.create_inbox({"action_key": "a"}), "subscription.app_key", "not empty"),
    "no action": (lambda: api.create_inbox({"app_key": "a"}), "subscription.action_key", "not empty"),
    "a number that is not JSON": (
        lambda: api.create_inbox({**APP, "inputs": {"n": float("nan")}}),
        "subscription",
        "cannot be sent as JSON: Out of range float values are not JSON compliant",
    ),
    "inputs that are no JSON": (
        lambda: api.create_inbox({**APP, "inputs": {1: {1}}}),
        "subscription",
        "JSON",
    ),
    "inputs as text": (lambda: api.create_inbox({**APP, "inputs": "x"}), "subscription.inputs", "an object"),
    "code that is no text": (lambda: api.exchange_code(["hush"], "https://b"), "code", "not empty"),
    "no redirect": (lambda: api.exchange_code("c", ""), "redirect_uri", "not empty"),
    "no refresh token": (lambda: api.refresh_user_token(""), "refresh_token", "not empty"),
    "no text of a form": (lambda: api.refresh_user_token("a\ud800"), "refresh_token", "lone surrogates"),
    "no scope": (lambda: api.app_token(" "), "scope", "not empty"),
    "no enrollment": (lambda: api.unenroll_promotion(""), "enrollment_id", "not empty"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_argument_out_of_range_is_named_with_its_range(case: str) -> None:
    make, field, bounds = REFUSED[case]
    with pytest.raises(ValueError) as error_info:
        make()
    assert str(error_info.value).startswith(field)
    assert bounds in str(error_info.value)
    assert "hush" not in str(error_info.value), "it may be a secret"


def get(send: Sender, inbox: str) -> Any:
    return send.run(inboxes.at_inbox, inbox, api.get_inbox)


@pytest.mark.specification("11.2 404")
def test_an_id_that_is_unknown_is_not_taken_for_a_name(send: Sender, emulator: EmulatorServer) -> None:
    with pytest.raises(NotFoundError):
        get(send, "00000000-0000-0000-0000-000000000000")
    assert emulator.count("list_inboxes") == 0


GOING = {"id": "one", "name": "orders", "status": "deleting"}
NEW = {"id": "two", "name": "orders", "status": "active"}


def script(scripted_server: ScriptedServer, *pages: Any) -> None:
    """Let the service answer with these pages, after a token."""
    scripted_server.script(*(answer(200, page) for page in pages))


def test_a_name_whose_inbox_is_being_deleted_leads_to_the_one_that_took_it_over(
    make_send: MakeSender, scripted_server: ScriptedServer
) -> None:
    send = make_send(scripted_server.settings())
    script(scripted_server, {"results": [GOING, NEW], "next": None}, NEW)
    assert get(send, "orders") == NEW
    assert b"/inboxes/two " in scripted_server.requests[-1]

    script(scripted_server, {"results": [GOING], "next": None})
    with pytest.raises(NotFoundError, match="Inbox 'orders' does not exist"):
        get(send, "orders")


def test_messages_without_ids_are_all_listed(make_send: MakeSender, scripted_server: ScriptedServer) -> None:
    script(
        scripted_server, {"results": [{}, {}], "next": "https://a?cursor=b"}, {"results": [{}], "next": None}
    )
    assert make_send(scripted_server.settings()).run(inboxes.all_messages, "i") == [{}, {}, {}]


def entries(number: int) -> list[dict[str, Any]]:
    return [{"id": f"{number}-{n}", "name": "another", "status": "active"} for n in range(100)]


ENDLESS: dict[str, tuple[Any, Any, int]] = {
    "inboxes": (
        partial(inboxes.all_inboxes, most=50),
        lambda n: {"results": entries(n), "next": "https://a"},
        50,
    ),
    "messages": (
        partial(inboxes.all_messages, inbox_id="i"),
        lambda n: {"results": [{"id": str(n)}], "next": f"https://a?cursor={n}"},
        50,
    ),
    "templates": (partial(inboxes.all_templates, apps=None, limit=None), entries, 50),
    "a look-up": (
        partial(inboxes.look_up, name="orders"),
        lambda n: {"results": entries(n), "next": "https://a"},
        100,
    ),
}


@pytest.mark.parametrize("listing", ENDLESS)
def test_a_listing_that_never_ends_is_an_error(listing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inboxes, "MAX_PAGES", 50)
    calls, page, most = ENDLESS[listing]
    read: list[Call[Any]] = []

    async def send(call: Call[Any]) -> Any:
        read.append(call)
        return page(len(read))

    with pytest.raises(
        TransportError, match=f"has no end: [0-9]+ entries were read in {most} pages"
    ) as error_info:
        asyncio.run(calls(send))
    assert error_info.value.permanent
    assert len(read) == most
