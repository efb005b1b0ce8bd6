"""Pages of messages, and the summary of an inbox for control (service facts 4)."""

from __future__ import annotations

import base64
import binascii
import json
from bisect import bisect_left, bisect_right
from typing import Any, NamedTuple

from airflow_provider_workflow.emulator.errors import invalid_parameter
from airflow_provider_workflow.emulator.records import Message
from airflow_provider_workflow.emulator.store import Store
from airflow_provider_workflow.emulator.views import inbox_view, iso, message_view


class Page(NamedTuple):
    """
    Part of a list.

    :param next: the cursor of the following page, or None.
    :param previous: the cursor of the page before, or None.
    """

    results: list[dict[str, Any]]
    next: str | None
    previous: str | None


def messages(store: Store, inbox_id: str, limit: int, cursor: str | None) -> Page:
    """
    List the messages of an inbox, quarantined ones included, without payloads.

    :param limit: messages on a page, 1 or more.
    :param cursor: where to go on, from an earlier page; opaque.
    :raises ServiceError: 400 for a cursor that is none of ours.
    """
    direction, number = _read_cursor(cursor)
    with store.core:
        found = _listed(store, inbox_id)
        newest_first = store.settings.list_order == "newest"
        keys = [-each.number if newest_first else each.number for each in found]
        if direction == "after":
            start = bisect_right(keys, number) if cursor else 0
        else:
            start = max(0, bisect_left(keys, number) - limit)
        chosen = slice(start, start + limit)
        page, keys_of_page = [message_view(each) for each in found[chosen]], keys[chosen]
    following = _cursor("after", keys_of_page[-1]) if page and start + limit < len(found) else None
    previous = _cursor("before", keys_of_page[0]) if page and start > 0 else None
    return Page(page, following, previous)


def summary(store: Store, inbox_id: str, *, with_messages: bool = True) -> dict[str, Any]:
    """
    Tell everything about an inbox, acknowledged messages included (control).

    :param with_messages: False for the counts alone.
    """
    with store.core:
        inbox, box = store.inboxes.get(inbox_id), store.messages.mailbox(inbox_id)
        every = sorted((*box.live.values(), *box.acked.values()), key=lambda message: message.number)
        counts = dict.fromkeys(("available", "leased", "acked", "quarantined"), 0)
        for message in every:
            counts[message.status] += 1
        leases = [each for each in box.leases.values() if each.numbers]
        answer: dict[str, Any] = {
            "inbox": inbox_view(inbox),
            "counts": counts,
            "counters": dict(inbox.counters),
        }
        if with_messages:
            answer["messages"] = [_detail(each) for each in every]
            answer["leases"] = [
                {
                    "lease_id": each.id,
                    "leased_until": iso(each.leased_until),
                    "message_ids": [box.live[number].id for number in each.numbers],
                }
                for each in leases
            ]
        return answer


def _listed(store: Store, inbox_id: str) -> list[Message]:
    box = store.messages.mailbox(inbox_id)
    found = list(box.live.values())
    if store.settings.acked_stay_listed:
        found += box.acked.values()
    found.sort(key=lambda message: message.number, reverse=store.settings.list_order == "newest")
    return found


def _detail(message: Message) -> dict[str, Any]:
    return {
        "id": message.id,
        "status": message.status,
        "lease_count": message.lease_count,
        "error_message": message.error_message,
        "possible_duplicate_data": message.possible_duplicate_data,
        "duplicate": message.duplicate,
        "lease_id": message.lease_id,
        "put_at": message.created_at,
        "leased_at": message.leased_at,
        "acked_at": message.acked_at,
    }


def _cursor(direction: str, number: int) -> str:
    return base64.urlsafe_b64encode(json.dumps({direction: number}).encode()).decode().rstrip("=")


def _read_cursor(cursor: str | None) -> tuple[str, int]:
    if not cursor:
        return "after", 0
    try:
        value = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        ((direction, number),) = value.items()
        if direction not in ("after", "before") or not isinstance(number, int):
            raise ValueError(direction)
    except (ValueError, AttributeError, binascii.Error):
        raise invalid_parameter("cursor", "not one that the service has given.") from None
    return direction, number
