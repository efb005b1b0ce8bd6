"""``inbox``: commands for the messages of an inbox."""

from __future__ import annotations

import shlex
from argparse import Namespace
from typing import Any

from airflow_provider_workflow import clock, types
from airflow_provider_workflow.cli import output
from airflow_provider_workflow.cli.common import Exit, hook_of
from airflow_provider_workflow.client.arguments import LEASE_LIMIT, within
from airflow_provider_workflow.client.errors import LeaseExpiredError


def list_messages(args: Namespace) -> int:
    """List messages, quarantined ones included."""
    listed = hook_of(args).list_messages(args.inbox)
    if args.status is not None:
        listed = [message for message in listed if message.get("status") == args.status]
    output.show(args.output, listed, _rows(listed))
    return Exit.OK


def _rows(messages: list[types.ListedMessage]) -> list[dict[str, Any]]:
    """The columns of messages; ``error`` only where a message has one."""
    rows = [_row(message) for message in messages]
    has_errors = any(row["error"] for row in rows)
    return rows if has_errors else [{name: row[name] for name in row if name != "error"} for row in rows]


def _row(message: types.ListedMessage) -> dict[str, Any]:
    attributes: Any = message.get("message_attributes") or {}
    created = clock.moment_of(message.get("created_at"))
    return {
        "id": message.get("id"),
        "age": output.duration(clock.now() - created.timestamp()) if created else None,
        "status": message.get("status"),
        "deliveries": attributes.get("lease_count"),
        "error": attributes.get("error_message"),
    }


def lease(args: Namespace) -> int:
    """Lease messages, if there are any."""
    within("--limit", args.limit, LEASE_LIMIT)
    leased = hook_of(args).lease_messages(args.inbox, args.limit, args.lease_seconds)
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
    rows = [{"id": message.get("id"), "payload": message.get("payload")} for message in leased["results"]]
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
    :raises InboxNotActiveError: the service has paused the inbox.
    """
    from airflow_provider_workflow.database.runs import DatabaseRuns
    from airflow_provider_workflow.dispatch.dead_letters import DeadLetterRules
    from airflow_provider_workflow.dispatch.dispatcher import Dispatcher
    from airflow_provider_workflow.dispatch.routing import Routes
    from airflow_provider_workflow.operators.base import check_dead_letters
    from airflow_provider_workflow.operators.inbox import drain_inbox
    from airflow_provider_workflow.options import Limits

    check_dead_letters(args.dead_letter_dag_id, args.dead_letter_after, "lease", args.trigger_dag_id)
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
