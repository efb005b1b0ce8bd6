"""``inbox``: commands for inboxes, and for the messages in them."""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from airflow_provider_workflow import clock, moments, types
from airflow_provider_workflow.cli import output
from airflow_provider_workflow.cli.common import Exit, hook_of, parsed_json
from airflow_provider_workflow.client import inboxes
from airflow_provider_workflow.client.arguments import LEASE_LIMIT, NAME_LENGTH, require_int, require_text
from airflow_provider_workflow.client.errors import (
    InboxPausedError,
    LeaseExpiredError,
    NotFoundError,
    WorkflowError,
)
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.text import counted, escaped
from airflow_provider_workflow.types import ACTIVE, DELETING, FAILED, INITIALIZING, PAUSED

PAGES = 5
"""Pages of 100 messages that are read of one inbox at most."""
MAX_COUNTED_INBOXES = 50
"""The messages of no more inboxes than these are counted."""


def list_inboxes(args: Namespace) -> int:
    """List inboxes, with their numbers of messages unless ``--no-counts``."""
    hook = hook_of(args)
    listed = hook.list_inboxes(args.status)
    result = [_public(inbox) for inbox in listed]
    rows = [_row(inbox) for inbox in listed]
    if not args.no_counts:
        for place, counts in enumerate(_count(hook, listed)):
            result[place]["messages"] = counts
            rows[place].update(_numbers(counts))
    output.show(args.output, result, rows)
    return Exit.OK


def show(args: Namespace) -> int:
    """Show an inbox, with its numbers of messages unless ``--no-counts``."""
    hook = hook_of(args)
    inbox = hook.get_inbox(args.inbox)
    result, row = _public(inbox), _public(inbox)
    if not args.no_counts:
        (counts,) = _count(hook, [inbox])
        result["messages"] = counts
        row.update(_numbers(counts))
    output.show(args.output, result, output.fields(row))
    return Exit.OK


def _count(hook: WorkflowHook, listed: Sequence[types.Inbox]) -> list[dict[str, Any] | None]:
    """
    The numbers of messages of inboxes; None for one that was not counted.

    An error of the service is printed as a note, and ends the counting.
    """
    counts: list[dict[str, Any] | None] = []
    for inbox in listed[:MAX_COUNTED_INBOXES]:
        try:
            is_listable = inbox["status"] not in (DELETING, FAILED)
            counts.append(_count_one(hook, inbox["id"]) if is_listable else None)
        except NotFoundError:  # deleted meanwhile
            counts.append(None)
        except WorkflowError as error:
            inboxes_left = counted(len(listed) - len(counts), "inbox", "inboxes")
            output.note(f"Messages of {inboxes_left} were not counted: {error}")
            return counts + [None] * (len(listed) - len(counts))
    if uncounted := len(listed) - len(counts):
        output.note(
            f"Messages of {counted(uncounted, 'inbox', 'inboxes')} were not counted: those of at most"
            f" {MAX_COUNTED_INBOXES} are; 'inbox show' counts those of one."
        )
    return counts + [None] * uncounted


def _count_one(hook: WorkflowHook, inbox_id: str) -> dict[str, Any]:
    messages, more = hook.run_once(inboxes.first_messages, inbox_id, PAGES)
    return {**inboxes.count_messages(messages), "complete": not more}


def _numbers(counts: dict[str, Any] | None) -> dict[str, Any]:
    """The counts for a table: ``12+`` if there may be more."""
    if counts is None:
        return dict.fromkeys((*inboxes.COUNTED, "oldest"))
    more = "" if counts["complete"] else "+"
    created = moments.moment_of(counts["oldest_created_at"])
    age = output.duration(clock.now() - created.timestamp()) if created else None
    return {**{name: f"{counts[name]}{more}" for name in inboxes.COUNTED}, "oldest": age}


def ensure(args: Namespace) -> int:
    """
    Create an inbox or find it; with ``--wait``, wait until it is active.

    :raises AirflowFailException: the name belongs to an inbox with another subscription, or the inbox failed
        to initialize.
    """
    from airflow_provider_workflow.operators.manage_inbox import settled_inbox, subscription_of

    require_text("name", args.name, NAME_LENGTH)
    if not args.timeout > 0:
        raise ValueError(f"--timeout must be above 0, not {args.timeout:g}")
    inputs = _json_object(args.inputs)
    subscription = subscription_of(args.app_key, args.action_key, inputs, args.connection_id)
    inbox = settled_inbox(
        hook_of(args),
        args.name,
        subscription,
        args.notification_url,
        timeout=args.timeout,
        wait_until_active=args.wait,
    )
    if inbox["status"] == PAUSED:
        output.note(f"Inbox {args.name!r} is paused: new events are dropped until it is resumed.")
    output.show(args.output, _public(inbox), output.fields(_public(inbox)))
    return Exit.OK


def _json_object(text: str | None) -> dict[str, Any] | None:
    try:
        value = None if text is None else parsed_json(text)
    except ValueError as error:
        raise ValueError(f"--inputs is not JSON: {error}") from None
    if value is not None and not isinstance(value, dict):
        raise ValueError('--inputs must be a JSON object, such as {"project": "support"}')
    return value


def pause(args: Namespace) -> int:
    """Pause an inbox; succeed if it is paused already."""
    return _change(args, "pause_inbox", (PAUSED,))


def resume(args: Namespace) -> int:
    """Resume an inbox; succeed if it is not paused."""
    return _change(args, "resume_inbox", (ACTIVE, INITIALIZING))


def _change(args: Namespace, method: str, already: tuple[str, ...]) -> int:
    from airflow_provider_workflow.operators.manage_inbox import change_inbox

    hook = hook_of(args)
    inbox = change_inbox(hook, args.inbox, getattr(hook, method), already)
    dropped = ": its messages stay, new events are dropped" if inbox["status"] == PAUSED else ""
    return _say(args, inbox, f"is {inbox['status']}{dropped}")


def delete(args: Namespace) -> int:
    """Delete an inbox, after a confirmation or with ``--yes``."""
    from airflow_provider_workflow.operators.manage_inbox import delete_existing

    hook = hook_of(args)
    inbox = hook.get_inbox(args.inbox)
    if not (args.yes or _is_confirmed(inbox)):
        output.note("Nothing was deleted.")
        return Exit.FAULT
    delete_existing(hook, inbox["id"])
    inbox["status"] = DELETING
    return _say(args, inbox, "is being deleted, with all the messages in it")


def _is_confirmed(inbox: types.Inbox) -> bool:
    """
    Ask for confirmation.

    :raises ValueError: stdin is not a terminal.
    """
    if not sys.stdin.isatty():
        raise ValueError("--yes is required if stdin is not a terminal")
    output.note(f"Delete {inbox.get('name')!r} ({inbox['id']}) with all its messages? (y/N)")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _say(args: Namespace, inbox: types.Inbox, sentence: str) -> int:
    """Print a sentence about a changed inbox, and the inbox for scripts."""
    if args.output == "table":
        output.write(output.cell(f"Inbox {inbox.get('name') or inbox['id']} {sentence}."))
    else:
        output.show(args.output, _public(inbox), output.fields(_public(inbox)))
    return Exit.OK


def _row(inbox: types.Inbox) -> dict[str, Any]:
    """The columns of an inbox in a list."""
    reason = inbox.get("paused_reason")
    return {
        "id": inbox["id"],
        "name": inbox.get("name"),
        "status": f"{inbox.get('status')} ({reason})" if reason else inbox.get("status"),
    }


def _public(inbox: types.Inbox) -> dict[str, Any]:
    """An inbox with its ``notification_url`` masked, except for the host."""
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
    listed = hook_of(args).list_messages(args.inbox)
    if args.status is not None:
        listed = [message for message in listed if message.get("status") == args.status]
    output.show(args.output, listed, _rows(listed))
    return Exit.OK


def _rows(messages: list[types.ListedMessage]) -> list[dict[str, Any]]:
    """The columns of messages; ``error`` only where a message has one."""
    rows = [_message_row(message) for message in messages]
    has_errors = any(row["error"] for row in rows)
    if has_errors:
        return rows
    return [{name: row[name] for name in row if name != "error"} for row in rows]


def _message_row(message: types.ListedMessage) -> dict[str, Any]:
    attributes: Any = message.get("message_attributes") or {}
    created = moments.moment_of(message.get("created_at"))
    return {
        "id": message.get("id"),
        "age": output.duration(clock.now() - created.timestamp()) if created else None,
        "status": message.get("status"),
        "deliveries": attributes.get("lease_count"),
        "error": attributes.get("error_message"),
    }


def lease(args: Namespace) -> int:
    """Lease messages, if there are any."""
    require_int("--limit", args.limit, LEASE_LIMIT)
    try:
        leased = hook_of(args).lease_messages(args.inbox, args.limit, args.lease_seconds)
    except InboxPausedError as paused:
        output.note(f"There is nothing to lease (the inbox is paused: {escaped(paused.paused_reason)}).")
        return Exit.NOTHING_TO_LEASE
    result = {name: value for name, value in leased.items() if name != "sent_at"}
    status = (leased.get("inbox_attributes") or {}).get("status")
    if not leased.get("lease_id"):
        output.note("There is nothing to lease" + (f" (the inbox is {status})." if status else "."))
        output.show(args.output, result)
        return Exit.NOTHING_TO_LEASE
    head = {
        "lease_id": leased["lease_id"],
        "leased_until": leased.get("leased_until"),
        "inbox status": status,
    }
    names = ("id", "payload")
    rows = [{name: message.get(name) for name in names} for message in leased["results"]]
    output.show(args.output, result, output.fields(head), rows)
    return Exit.OK


def acknowledge(args: Namespace) -> int:
    """Acknowledge messages of a lease."""
    return _end(args, "acknowledge_messages", "acknowledged")


def release(args: Namespace) -> int:
    """Release messages of a lease."""
    return _end(args, "release_messages", "released")


def _end(args: Namespace, method: str, done: str) -> int:
    """
    End a lease, or a part of it, and show the messages that were acknowledged or released.

    :return: ``NOT_FOUND`` if there are none, ``FAULT`` if some of ``message_ids`` are missing.
    """
    try:
        answer = getattr(hook_of(args), method)(args.inbox, args.lease_id, args.message_ids or None)
    except LeaseExpiredError:
        output.note(
            f"Nothing was {done} (lease_expired): the lease {args.lease_id} has expired."
            f" Lease again: airflow-workflow inbox lease {shlex.quote(args.inbox)}"
        )
        return Exit.FAULT
    results: list[types.ListedMessage] = answer.get("results") or []
    output.show(args.output, answer, *([_rows(results)] if results else []))
    requested = len(set(args.message_ids))
    if not results:
        held = "holds none of these messages" if requested else "holds no messages"
        output.note(
            f"Nothing was {done}: in inbox {args.inbox} the lease {args.lease_id} {held}."
            " The id is wrong or of another inbox, or the lease has ended."
        )
        return Exit.NOT_FOUND
    if len(results) < requested:
        expired = "the others are redelivered when their lease expires"
        output.note(f"{len(results)} of {requested} messages were {done}; {expired}.")
        return Exit.FAULT
    return Exit.OK


def drain(args: Namespace) -> int:
    """
    Start runs of the available messages, as the dispatch operator does, and acknowledge them.

    :raises TargetError: no runs of the DAG can be started; leased messages are released.
    :raises SourceError: no events arrive in the inbox.
    :raises ValueError: payloads have to be written to an object storage.
    """
    from airflow_provider_workflow.config import payload_objectstorage_path
    from airflow_provider_workflow.database.dag_runs import DatabaseRuns
    from airflow_provider_workflow.dispatch.dead_letters import DeadLetterRules
    from airflow_provider_workflow.dispatch.dispatcher import Dispatcher
    from airflow_provider_workflow.dispatch.routing import Routes
    from airflow_provider_workflow.limits import Limits
    from airflow_provider_workflow.operators.inbox import drain_inbox
    from airflow_provider_workflow.options import check_dead_letters

    check_dead_letters(args.dead_letter_dag_id, args.dead_letter_after, "lease", args.trigger_dag_id)
    if payload_objectstorage_path():
        raise ValueError(
            "inbox drain does not write payloads to [workflow] payload_objectstorage_path. Drain the inbox"
            " with a run of a DAG that has a WorkflowInboxDispatchOperator"
        )
    rules = None
    if args.dead_letter_dag_id:
        rules = DeadLetterRules(args.dead_letter_dag_id, args.dead_letter_after)
    dispatcher = Dispatcher(
        hook_of(args),
        args.inbox,
        Routes(args.trigger_dag_id),
        DatabaseRuns(),
        Limits(100, 300, args.max_messages, args.max_unfinished_runs),
        dead_letter_rules=rules,
    )
    counts, ended = dispatcher.counts, ""
    try:
        _, ended = drain_inbox(dispatcher)
        output.note(f"{ended}.")
    finally:
        # Also after an error, if runs were started.
        if ended or counts.handled:
            output.show(args.output, counts.result, output.outcomes("messages", counts.by_outcome()))
    if counts.causes:
        output.note(counts.rejected_text())
        return Exit.FAULT
    return Exit.OK
