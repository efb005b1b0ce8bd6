"""
What an asset event carries of messages: one ASCII JSON text, which ``assets.messages_of`` opens.

A payload that is put into an event as it is can end the whole triggerer (a NUL, a lone surrogate, an
integer over 64 bits), and a database reorders its keys. A text crosses with any of these in it, as the
service sent it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from airflow_provider_workflow.client import types
from airflow_provider_workflow.client.json_steps import in_slices
from airflow_provider_workflow.dispatch.lease import for_people
from airflow_provider_workflow.values import plain


class Carried(NamedTuple):
    """
    A leased message on its way into events.

    :param message: ``id``, ``created_at``, ``payload``, ``message_attributes``.
    :param text: the same as ASCII JSON.
    """

    id: str
    message: dict[str, Any]
    text: str


def carried(message: types.LeasedMessage) -> Iterator[Carried | None]:
    """
    Write a message: None after each slice of work but the last, so that an event loop may go on; then it.

    :raises ValueError: no text can hold the message.
    """
    shown = for_people(message)
    parts: list[str] = []
    try:
        for part in in_slices(shown):
            if parts:
                yield None
            parts.append(part)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    yield Carried(message["id"], shown, "".join(parts))


def event_payload(inbox_id: str, messages: Iterable[Carried], again: Collection[str]) -> dict[str, Any]:
    """
    The payload of an event; ``messages_of`` opens it.

    :param again: ids of the messages that were in an event before.
    """
    texts = [f'{each.text[:-1]}, "redelivered": {json.dumps(each.id in again)}}}' for each in messages]
    return {"inbox_id": plain(inbox_id), "count": len(texts), "messages": f"[{', '.join(texts)}]"}
