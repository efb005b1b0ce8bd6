"""What is done to the messages of an inbox: list, lease, acknowledge, release."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from airflow_provider_workflow.cli import output
from airflow_provider_workflow.cli.connecting import hook_of
from airflow_provider_workflow.cli.running import Exit
from airflow_provider_workflow.client import types


def list_messages(args: Namespace) -> int:
    """List messages, quarantined ones included."""
    found = hook_of(args).list_messages(args.inbox)
    if args.status is not None:
        found = [message for message in found if message["status"] == args.status]
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
    answer = hook_of(args).acknowledge_messages(args.inbox, args.lease_id, args.message_ids or None)
    return _ended(args, answer, "acknowledged", "come again")


def release(args: Namespace) -> int:
    """Release messages of a lease."""
    answer = hook_of(args).release_messages(args.inbox, args.lease_id, args.message_ids or None)
    return _ended(args, answer, "released", "come again when their lease ends")


def _ended(args: Namespace, answer: Any, done: str, others: str) -> int:
    """Show what a lease's end was for; not found where that is nothing, a fault where it is not all."""
    results: list[types.Message] = answer.get("results") or []
    output.show(args.output, answer, [_row(message) for message in results])
    asked = len(set(args.message_ids))
    if not results:
        output.note(f"Nothing was {done}: the inbox has no such lease, or these are no messages of it.")
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
