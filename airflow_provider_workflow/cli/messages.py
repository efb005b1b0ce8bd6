"""What is done to the messages of an inbox: list, lease, acknowledge, release."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Callable
from typing import Any

from airflow_provider_workflow.cli import output
from airflow_provider_workflow.cli.running import Exit, hook_of
from airflow_provider_workflow.client import types
from airflow_provider_workflow.client.errors import LeaseExpiredError


def list_messages(args: Namespace) -> int:
    """List messages, quarantined ones included."""
    found = hook_of(args).list_messages(args.inbox)
    if args.status is not None:
        found = [message for message in found if message.get("status") == args.status]
    output.show(args.output, found, [_row(message) for message in found])
    return Exit.OK


def lease(args: Namespace) -> int:
    """Lease messages, if there are any."""
    leased = hook_of(args).lease_messages(args.inbox, args.limit, args.lease_seconds)
    if not leased.get("lease_id"):
        status = (leased.get("inbox_attributes") or {}).get("status")
        output.note(f"There is nothing to lease (the inbox is {status}).")
        output.show(args.output, leased)
        return Exit.NOTHING_TO_LEASE
    rows = [{**_row(message), "payload": message.get("payload")} for message in leased["results"]]
    output.show(args.output, leased, output.fields(_of_lease(leased)), rows)
    return Exit.OK


def acknowledge(args: Namespace) -> int:
    """Acknowledge messages of a lease."""
    return _ended(args, hook_of(args).acknowledge_messages, "acknowledged", "are redelivered")


def release(args: Namespace) -> int:
    """Release messages of a lease."""
    return _ended(
        args, hook_of(args).release_messages, "released", "are redelivered when their lease expires"
    )


def _ended(args: Namespace, end: Callable[..., Any], done: str, others: str) -> int:
    """
    End a lease, or a part of it, and show what it ended for.

    :return: not found where that is nothing, a fault where it is not all of what was asked for.
    """
    try:
        answer = end(args.inbox, args.lease_id, args.message_ids or None)
    except LeaseExpiredError:
        output.note(
            f"Nothing was {done} (lease_expired): the lease {args.lease_id} has expired, and its messages are"
            f" redelivered. Lease them again: airflow-workflow inbox lease {shlex.quote(args.inbox)}"
        )
        return Exit.FAULT
    results: list[types.Message] = answer.get("results") or []
    rows = [_row(message) for message in results]
    output.show(args.output, answer, *([rows] if rows else []))
    asked = len(set(args.message_ids))
    if not results:
        held = "holds none of these messages" if asked else "holds no messages"
        output.note(
            f"Nothing was {done}: in inbox {args.inbox} the lease {args.lease_id} {held}. The id is wrong or"
            " of another inbox, or the lease has ended: its messages were acknowledged or released, or are"
            " redelivered."
        )
        return Exit.NOT_FOUND
    if len(results) < asked:
        output.note(f"{len(results)} of {asked} messages were {done}; the others {others}.")
        return Exit.FAULT
    return Exit.OK


def _of_lease(leased: types.Lease) -> output.Row:
    attributes = leased.get("inbox_attributes") or {}
    return {
        "lease_id": leased["lease_id"],
        "leased_until": leased.get("leased_until"),
        "inbox_status": attributes.get("status"),
    }


def _row(message: types.Message) -> dict[str, Any]:
    attributes: Any = message.get("message_attributes") or {}
    return {
        "id": message.get("id"),
        "created_at": message.get("created_at"),
        "status": message.get("status"),
        "lease_count": attributes.get("lease_count"),
        "error_message": attributes.get("error_message"),
        "possible_duplicate_data": attributes.get("possible_duplicate_data"),
    }
