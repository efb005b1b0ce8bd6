"""Tells observers of calls that lease, acknowledge and release messages, and remembers names of inboxes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_provider_workflow import clock, moments
from airflow_provider_workflow.inbox_names import remember_name
from airflow_provider_workflow.observers import AGE, notify

if TYPE_CHECKING:
    from airflow_provider_workflow.client.call import Call
    from airflow_provider_workflow.client.exchange import Observer

CALLS = {
    "lease_messages": "leased",
    "acknowledge_messages": "acknowledged",
    "release_messages": "released",
}
NAMING = ("get_inbox", "list_inboxes", "ensure_inbox", "create_inbox")
"""Calls whose answers have the names of inboxes."""
PORTS = {"http": 80, "https": 443}


def observer(conn_id: str, base_url: str) -> Observer:
    """
    A callback that tells observers the outcome of each attempt of a call.

    :param conn_id: id of the Airflow connection.
    :param base_url: of the service.
    """
    url = urlsplit(base_url)
    port = url.port or PORTS.get(url.scheme, 0)
    server = {"server.address": url.hostname or "", "server.port": port}

    def observe(call: Call[Any], outcome: Any, began_at: float) -> None:
        from airflow_provider_workflow.client.errors import RateLimitError

        error = outcome if isinstance(outcome, Exception) else None
        answer = outcome if error is None else {}
        if isinstance(error, RateLimitError) and error.status == 429:
            notify("rate_limited", inbox="", conn_id=conn_id, facts={"family": call.family.value})
        if call.name in NAMING and error is None:
            for inbox in filter(None, answer["results"] if call.name == "list_inboxes" else [answer]):
                if isinstance(name := inbox.get("name"), str) and name:
                    remember_name(inbox["id"], conn_id, name)
        elif call.name in CALLS:
            source = {"inbox": call.path.split("/")[2], "conn_id": conn_id}
            tell_of = _tell_of_lease if call.name == "lease_messages" else _tell_of_end
            tell_of(call, answer, error, **source, began_at=began_at, facts=server)

    return observe


def _tell_of_lease(
    _call: Call[Any],
    answer: Mapping[str, Any],
    error: Exception | None,
    facts: dict[str, Any],
    **about: Any,
) -> None:
    from airflow_provider_workflow.client.errors import InboxPausedError

    messages = answer.get("results") or ()
    if error is None or isinstance(error, InboxPausedError):  # a paused inbox has no messages
        error = None
        created = [moments.moment_of(message.get("created_at")) for message in messages]
        ages = [clock.now() - moment.timestamp() for moment in created if moment is not None]
        facts = {**facts, AGE: max([0.0, *ages])}
    ids = [str(message.get("id")) for message in messages]
    about = {**about, "message_ids": ids, "facts": facts}
    notify("leased", count=len(messages), lease_id=answer.get("lease_id"), error=error, **about)


def _tell_of_end(call: Call[Any], answer: Mapping[str, Any], error: Exception | None, **about: Any) -> None:
    from airflow_provider_workflow.client.errors import LeaseExpiredError

    what, body, results = CALLS[call.name], call.json or {}, answer.get("results") or ()
    named = body.get("message_ids") or [str(done.get("id")) for done in results]
    message_ids = list(dict.fromkeys(named))
    about = {**about, "message_ids": message_ids, "lease_id": body.get("lease_id"), "error": error}
    notify(what, count=len(results), **about)
    if what == "acknowledged" and (error is None or isinstance(error, LeaseExpiredError)):
        # A lease may be acknowledged as a whole, without ids.
        missing = max(len(message_ids), 1 if error else 0) - len(results)
        notify("lease_expired", inbox=about["inbox"], conn_id=about["conn_id"], count=missing)
