"""Arguments out of range never leave the process, and the error names the field and its range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_workflow.client import api, inboxes
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.client.calls import SUBSCRIPTION
from tests.unit.client.senders import Sender

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
