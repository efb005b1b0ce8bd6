"""One of each call, for tests that hold for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.call import Call

SUBSCRIPTION: Any = {
    "app_key": "Shop@2.1.0",
    "action_key": "new_order",
    "inputs": {"region": "eu"},
    "connection_id": 7,
}
SOME_ID = "00000000-0000-0000-0000-000000000001"

OPERATIONS: dict[str, tuple[str, Callable[[str], Call[Any]]]] = {
    "guess": ("guess", lambda _: api.guess("Send an email for each new order")),
    "list_templates": ("templates", lambda _: api.list_templates()),
    "unenroll_promotion": ("unenroll", lambda _: api.unenroll_promotion("e-1")),
    "app_token": ("token", lambda _: api.app_token("external")),
    "exchange_code": ("token", lambda _: api.exchange_code("a-code", "http://localhost/back")),
    "refresh_user_token": ("token", lambda _: api.refresh_user_token("a-refresh-token")),
    "list_inboxes": ("list_inboxes", lambda _: api.list_inboxes()),
    "create_inbox": ("create_inbox", lambda _: api.create_inbox(SUBSCRIPTION, "created")),
    "ensure_inbox": ("ensure_inbox", lambda _: api.ensure_inbox("ensured", SUBSCRIPTION)),
    "get_inbox": ("get_inbox", api.get_inbox),
    "update_inbox": ("update_inbox", lambda inbox: api.update_inbox(inbox, "https://example.com/told")),
    "delete_inbox": ("delete_inbox", api.delete_inbox),
    "pause_inbox": ("pause_inbox", api.pause_inbox),
    "resume_inbox": ("resume_inbox", api.resume_inbox),
    "list_messages": ("list_messages", api.list_messages),
    "lease_messages": ("lease", api.lease_messages),
    "acknowledge_messages": ("ack", lambda inbox: api.acknowledge_messages(inbox, "a-lease")),
    "release_messages": ("release", lambda inbox: api.release_messages(inbox, "a-lease")),
    "events": ("events", api.events),
}
"""By name of the call: the emulator's name for it, and how to make one for an inbox."""


def make(name: str, inbox_id: str = SOME_ID) -> Call[Any]:
    return OPERATIONS[name][1](inbox_id)
