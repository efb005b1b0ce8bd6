"""
What the page keeps and shows of an object of the service: known fields, each of one type and of limited size.

The service may send anything: a list in place of a string, infinity, half of a surrogate pair, a name of
10 MB. So nothing else of it reaches an answer of the page's API, or stays in the memory of the API server.
"""

from __future__ import annotations

import json
from typing import Any

from airflow_provider_workflow import clock, types
from airflow_provider_workflow.client.failures import one_line
from airflow_provider_workflow.dispatch.dead_letters import RUN_PREFIX
from airflow_provider_workflow.dispatch.lease import delivery_count
from airflow_provider_workflow.dispatch.runs import run_id_of

LONGEST_TEXT = 300
MOST_DELIVERIES = 1_000_000


def text(value: Any, longest: int = LONGEST_TEXT) -> str | None:
    """
    A string that UTF-8 can encode; a number is shown as JSON. None for anything else.

    :param longest: maximum number of characters; a longer string is truncated.
    """
    whole = _string(value)
    if whole is None:
        return None
    cut = whole if len(whole) <= longest else f"{whole[: longest - 3]}..."
    return cut.encode(errors="replace").decode()


def _string(value: Any) -> str | None:
    # The dispatcher takes a number as an id too, in the same form.
    if isinstance(value, int | float):
        return json.dumps(value)
    return value if isinstance(value, str) else None


def inbox_of(value: types.Inbox) -> dict[str, Any]:
    """An inbox of the service."""
    fields = {name: text(value.get(name)) for name in ("id", "name", "status", "paused_reason")}
    return {**fields, "created_at": clock.normal(value.get("created_at"))}


def message_of(value: Any, inbox_id: str) -> dict[str, Any]:
    """
    A message of the service, with the ids that its run and its dead letter have.

    :param value: an object.
    """
    attributes = value.get("message_attributes")
    if not isinstance(attributes, dict):
        attributes = {}
    error, message_id = attributes.get("error_message"), _string(value.get("id"))
    count = delivery_count(value) or 0
    return {
        "id": text(message_id),
        "status": text(value.get("status")),
        "created_at": clock.normal(value.get("created_at")),
        "delivery_count": min(max(0, count), MOST_DELIVERIES),
        "error_message": one_line(error) if isinstance(error, str) else None,
        "possible_duplicate": attributes.get("possible_duplicate_data") is True,
        "run": None if message_id is None else run_id_of(message_id, inbox_id),
        "dead_letter": None if message_id is None else run_id_of(message_id, inbox_id, RUN_PREFIX),
    }
