"""
Assets that stand for trigger inboxes, ``workflow-inbox://<connection id>/<inbox>``, and their events.

The address names; it reaches nothing. Two DAG files that write it differently mean the same asset, as
Airflow hands every address to :func:`sanitize_uri`. Airflow imports this module wherever it reads one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, unquote

from airflow_provider_workflow.client.arguments import filled

if TYPE_CHECKING:
    from airflow.sdk import Asset

SCHEME = "workflow-inbox"
FORM = f"{SCHEME}://<connection id>/<inbox>"
CURE = "create_asset(inbox=..., workflow_conn_id=...) of airflow_provider_workflow.assets writes it"


def create_asset(
    *,
    inbox: str,
    workflow_conn_id: str = "workflow_default",
    name: str | None = None,
    extra: dict[str, Any] | None = None,
    **arguments: Any,
) -> Asset:
    """
    The asset of an inbox, whatever characters its name has.

    :param inbox: id or name of the inbox. Either makes an asset of its own: use the same one everywhere.
    :param workflow_conn_id: id of the Airflow connection.
    :param name: of the asset; its address by default.
    :param extra: what Airflow keeps with the asset.
    :param arguments: further ones of ``Asset``, such as ``watchers`` and ``group``.
    :raises ValueError: names the argument that is wrong.
    """
    from airflow.sdk import Asset

    uri = f"{SCHEME}://{_part('workflow_conn_id', workflow_conn_id)}/{_part('inbox', inbox)}"
    return Asset(name=name or uri, uri=uri, extra=extra, **arguments)


def messages_of(event: Any) -> list[dict[str, Any]]:
    """
    The messages of an asset event that ``WorkflowInboxEventTrigger`` made.

    Each has ``id``, ``created_at``, ``payload``, ``message_attributes`` and ``redelivered``: whether it was
    put into an event of this asset before, which may or may not have been stored: the triggerer was killed
    or stopped, the DAG was paused, or an acknowledgement failed.

    :param event: one of ``triggering_asset_events[asset]``, its ``extra``, or the payload in there.
    :raises ValueError: the event is none of this trigger's.
    """
    found = event if isinstance(event, Mapping) else getattr(event, "extra", None)
    if isinstance(found, Mapping) and "payload" in found:
        found = found["payload"]
    text = found.get("messages") if isinstance(found, Mapping) else None
    if not isinstance(text, str):
        raise ValueError("the event carries no messages: it was not made by WorkflowInboxEventTrigger")
    messages: list[dict[str, Any]] = json.loads(text)
    return messages


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """
    The one way to write the address of an inbox.

    :raises ValueError: it is none; says what is missing or too much, and who writes it.
    """
    inbox = uri.path[1:]
    if "@" in uri.netloc or ":" in uri.netloc:
        # Not named in the text: there may be a password before the @.
        raise _wrong(
            "an address", "has a user or a port, which the connection knows (a colon is written %3A)"
        )
    if not uri.netloc:
        raise _wrong(repr(uri.geturl()), "names no connection")
    if not inbox:
        raise _wrong(repr(uri.geturl()), "names no inbox")
    if "/" in inbox:
        raise _wrong(
            repr(uri.geturl()),
            "has more than one part after the connection; a slash in a name is written %2F",
        )
    if uri.query:
        raise _wrong(repr(uri.geturl()), "has a query; a question mark in a name is written %3F")
    try:
        connection, inbox = (unquote(part, errors="strict") for part in (uri.netloc, inbox))
    except UnicodeDecodeError:
        raise _wrong(repr(uri.geturl()), "is not percent-encoded UTF-8") from None
    return uri._replace(
        netloc=_part("workflow_conn_id", connection), path="/" + _part("inbox", inbox), fragment=""
    )


def _part(field: str, value: str) -> str:
    """A name as one part of the address."""
    try:
        return quote(filled(field, value), safe="")
    except UnicodeEncodeError:
        raise ValueError(f"{field} cannot be written in an address: it has a lone surrogate") from None


def _wrong(address: str, problem: str) -> ValueError:
    return ValueError(f"{address} {problem}. The form is {FORM}; {CURE}.")
