"""The answer of each call as it has to be (docs/service.md 2 to 9 and 13)."""

from __future__ import annotations

from typing import Any

from tests.unit.client.matrix.cells import CALLS, TOKEN_CALLS
from tests.unit.client.scripted import answer

INBOX = {"id": "an-id", "name": "orders", "status": "active", "paused_reason": None}
MESSAGE = {"id": "m-1", "created_at": "x", "status": "available", "message_attributes": {"lease_count": 1}}
STEP = {"step": {"title": None, "app": "Mail", "api": "MailAPI@1"}, "alternatives": []}
PAGE = {"count": 1, "next": None, "previous": None}
TOKEN = {"access_token": "a-token", "refresh_token": "b", "expires_in": 36000, "token_type": "Bearer"}
GOOD: dict[str, Any] = {
    **dict.fromkeys(CALLS, INBOX),
    **dict.fromkeys(TOKEN_CALLS, TOKEN),
    "guess": {
        "title": "A title",
        "steps": [STEP],
        "prefilled_url": "https://e.example.com/x",
        "messages": [],
    },
    "list_templates": [{"id": 1, "title": "T", "steps": []}],
    "list_inboxes": {**PAGE, "results": [INBOX]},
    "list_messages": {**PAGE, "results": [MESSAGE]},
    "lease_messages": {
        "lease_id": "l-1",
        "leased_until": "x",
        "results": [{**MESSAGE, "payload": {"n": 1}}],
        "inbox_attributes": {"status": "active", "paused_reason": None},
    },
    "acknowledge_messages": {"acked_id": "a-1", "results": [MESSAGE]},
    "release_messages": {"released_id": "r-1", "results": [MESSAGE]},
}


def good(name: str) -> bytes:
    """A good answer to a call."""
    return answer(204) if name == "unenroll_promotion" else answer(200, GOOD[name])
