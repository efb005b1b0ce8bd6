"""``inbox``: commands for inboxes, and, from ``list_messages`` on, for their messages."""

from __future__ import annotations

import json
import shlex
import sys
from argparse import Namespace
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from airflow_provider_workflow import clock, types
from airflow_provider_workflow.cli import counting, output
from airflow_provider_workflow.cli.running import Exit, hook_of
from airflow_provider_workflow.client.arguments import NAME_LENGTH, filled
from airflow_provider_workflow.client.errors import LeaseExpiredError
from airflow_provider_workflow.types import ACTIVE, DELETING, FAILED, INITIALIZING, PAUSED

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 10.0
"""First and longest pause while waiting for an inbox."""


def list_inboxes(args: Namespace) -> int:
    """List inboxes, with the numbers of their messages unless ``--no-counts`` is given."""
    hook = hook_of(args)
    found = hook.list_inboxes(args.status)
    if args.no_counts:
        output.show(args.output, [_public(inbox) for inbox in found], [_row(inbox) for inbox in found])
        return Exit.OK
    counted = list(zip(found, counting.counts_of(hook, found), strict=True))
    result = [_counted(_public(inbox), counts) for inbox, counts in counted]
    output.show(args.output, result, [_row(inbox, _numbers(counts)) for inbox, counts in counted])
    return Exit.OK


def show(args: Namespace) -> int:
    """Show an inbox, with the numbers of its messages unless ``--no-counts`` is given."""
    hook = hook_of(args)
    inbox = hook.get_inbox(args.inbox)
    if args.no_counts:
        return _shown(args, inbox)
    (counts,) = counting.counts_of(hook, [inbox])
    public = _public(inbox)
    output.show(args.output, _counted(public, counts), output.fields({**public, **_numbers(counts)}))
    return Exit.OK


def _counted(inbox: dict[str, Any], counts: counting.MessageCounts | None) -> dict[str, Any]:
    return {**inbox, "messages": counts.result() if counts else None}


def _numbers(counts: counting.MessageCounts | None) -> output.Row:
    return counts.row() if counts else counting.NOT_COUNTED


def ensure(args: Namespace) -> int:
    """
    Create an inbox or find it; with ``--wait``, wait until it is active.

    :raises InboxNameTakenError: the name belongs to an inbox with another subscription.
    """
    from airflow_provider_workflow.operators.manage_inbox import ensure_inbox, subscription_of

    filled("name", args.name, NAME_LENGTH)
    if not args.timeout > 0:
        raise ValueError(f"--timeout must be above 0, not {args.timeout:g}")
    wanted = subscription_of(args.app_key, args.action_key, _json_object(args.inputs), args.connection_id)

    def is_done(inbox: types.Inbox) -> bool:
        return not args.wait or inbox["status"] not in (INITIALIZING, DELETING)

    hook, pause, deadline = hook_of(args), FIRST_PAUSE_SECONDS, clock.now() + args.timeout
    while not is_done(inbox := ensure_inbox(hook, args.name, wanted, args.notification_url)):
        if (remaining := deadline - clock.now()) <= 0:
            break
        clock.sleep(min(pause, remaining))
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
    if not is_done(inbox):
        output.note(f"Inbox {args.name!r} was not active within {args.timeout:g} s.")
        return _shown(args, inbox, Exit.FAULT)
    if inbox["status"] == FAILED:
        reason = inbox.get("paused_reason") or "no reason given"
        output.note(f"Inbox {args.name!r} failed to initialize ({reason}). Delete it and create it again.")
        return _shown(args, inbox, Exit.FAULT)
    if inbox["status"] == PAUSED:
        output.note(f"Inbox {args.name!r} is paused: new events are dropped until it is resumed.")
    return _shown(args, inbox)


def pause(args: Namespace) -> int:
    """Pause an inbox; succeed if it is paused already."""
    from airflow_provider_workflow.operators.manage_inbox import change_inbox

    hook = hook_of(args)
    return _shown(args, change_inbox(hook, args.inbox, hook.pause_inbox, (PAUSED,)))


def resume(args: Namespace) -> int:
    """Resume an inbox; succeed if it is not paused."""
    from airflow_provider_workflow.operators.manage_inbox import change_inbox

    hook = hook_of(args)
    return _shown(args, change_inbox(hook, args.inbox, hook.resume_inbox, (ACTIVE, INITIALIZING)))


def delete(args: Namespace) -> int:
    """Delete an inbox, after a confirmation or with ``--yes``."""
    hook = hook_of(args)
    inbox = hook.get_inbox(args.inbox)
    if not (args.yes or _confirmed(inbox)):
        output.note("Nothing was deleted.")
        return Exit.FAULT
    return _shown(args, hook.delete_inbox(inbox["id"]))


def _confirmed(inbox: types.Inbox) -> bool:
    """
    Ask for confirmation.

    :raises ValueError: stdin is not a terminal.
    """
    if not sys.stdin.isatty():
        raise ValueError("--yes is required if stdin is not a terminal")
    output.note(f"Delete the inbox {inbox.get('name')!r} ({inbox['id']}) with all the messages in it? (y/N)")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _json_object(text: str | None) -> dict[str, Any] | None:
    try:
        value = None if text is None else json.loads(text)
    except ValueError as error:
        raise ValueError(f"--inputs is not JSON: {error}") from None
    if value is not None and not isinstance(value, dict):
        raise ValueError('--inputs must be a JSON object, such as {"project": "support"}')
    return value


def _row(inbox: types.Inbox, numbers: output.Row | None = None) -> output.Row:
    subscription = inbox.get("subscription") or {}
    return {
        "id": inbox["id"],
        "name": inbox.get("name"),
        "status": inbox.get("status"),
        "paused_reason": inbox.get("paused_reason"),
        **(numbers or {}),
        "app_key": subscription.get("app_key"),
        "action_key": subscription.get("action_key"),
    }


def _shown(args: Namespace, inbox: types.Inbox, code: Exit = Exit.OK) -> int:
    public = _public(inbox)
    output.show(args.output, public, output.fields(public))
    return code


def _public(inbox: types.Inbox) -> dict[str, Any]:
    """An inbox whose ``notification_url`` is masked except for its host: its path is a secret."""
    url = inbox.get("notification_url")
    return {**inbox, "notification_url": _host_of(url) if url else url}


def _host_of(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return output.MASK
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/{output.MASK}"


def list_messages(args: Namespace) -> int:
    """List messages, quarantined ones included."""
    found = hook_of(args).list_messages(args.inbox)
    if args.status is not None:
        found = [message for message in found if message.get("status") == args.status]
    output.show(args.output, found, [_message_row(message) for message in found])
    return Exit.OK


def lease(args: Namespace) -> int:
    """Lease messages, if there are any."""
    leased = hook_of(args).lease_messages(args.inbox, args.limit, args.lease_seconds)
    shown = {name: value for name, value in leased.items() if name != "sent_at"}
    if not leased.get("lease_id"):
        status = (leased.get("inbox_attributes") or {}).get("status")
        output.note(f"There is nothing to lease (the inbox is {status}).")
        output.show(args.output, shown)
        return Exit.NOTHING_TO_LEASE
    rows = [{**_message_row(message), "payload": message.get("payload")} for message in leased["results"]]
    output.show(args.output, shown, output.fields(_of_lease(leased)), rows)
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
    End a lease, or a part of it, and show the messages that were acknowledged or released.

    :return: ``NOT_FOUND`` if there are none, ``FAULT`` if some of ``message_ids`` are missing.
    """
    try:
        answer = end(args.inbox, args.lease_id, args.message_ids or None)
    except LeaseExpiredError:
        output.note(
            f"Nothing was {done} (lease_expired): the lease {args.lease_id} has expired, and its messages are"
            f" redelivered. Lease them again: airflow-workflow inbox lease {shlex.quote(args.inbox)}"
        )
        return Exit.FAULT
    results: list[types.ListedMessage] = answer.get("results") or []
    rows = [_message_row(message) for message in results]
    output.show(args.output, answer, *([rows] if rows else []))
    requested = len(set(args.message_ids))
    if not results:
        held = "holds none of these messages" if requested else "holds no messages"
        output.note(
            f"Nothing was {done}: in inbox {args.inbox} the lease {args.lease_id} {held}. The id is wrong or"
            " of another inbox, or the lease has ended: its messages were acknowledged or released, or are"
            " redelivered."
        )
        return Exit.NOT_FOUND
    if len(results) < requested:
        output.note(f"{len(results)} of {requested} messages were {done}; the others {others}.")
        return Exit.FAULT
    return Exit.OK


def _of_lease(leased: types.LeaseAnswer) -> output.Row:
    attributes = leased.get("inbox_attributes") or {}
    return {
        "lease_id": leased["lease_id"],
        "leased_until": leased.get("leased_until"),
        "inbox_status": attributes.get("status"),
    }


def _message_row(message: types.ListedMessage) -> dict[str, Any]:
    attributes: Any = message.get("message_attributes") or {}
    return {
        "id": message.get("id"),
        "created_at": message.get("created_at"),
        "status": message.get("status"),
        "lease_count": attributes.get("lease_count"),
        "error_message": attributes.get("error_message"),
        "possible_duplicate_data": attributes.get("possible_duplicate_data"),
    }
