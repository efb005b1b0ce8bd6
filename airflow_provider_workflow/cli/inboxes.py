"""What is done to an inbox as a whole: list, show, ensure, pause, resume, delete."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_provider_workflow import clock
from airflow_provider_workflow.cli import counting, output
from airflow_provider_workflow.cli.running import Exit, hook_of
from airflow_provider_workflow.client import types
from airflow_provider_workflow.client.arguments import NAME_LENGTH, filled
from airflow_provider_workflow.client.errors import ConflictError
from airflow_provider_workflow.client.inboxes import ACTIVE, DELETING, FAILED, INITIALIZING, PAUSED

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

WAIT_SECONDS = (1.0, 10.0)
"""Pause after the first look at an inbox that is waited for, and what it grows to."""


def list_inboxes(args: Namespace) -> int:
    """List inboxes, with the numbers of their messages unless ``--no-counts`` says otherwise."""
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
    """Show an inbox, with the numbers of its messages unless ``--no-counts`` says otherwise."""
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
    Create an inbox or find it, and wait for it where that was asked for.

    :raises InboxNameTakenError: the name belongs to an inbox with another subscription.
    """
    from airflow_provider_workflow.operators.named_inbox import NamedInbox, subscription_of

    filled("name", args.name, NAME_LENGTH)
    if not args.timeout > 0:
        raise ValueError(f"--timeout must be above 0, not {args.timeout:g}")
    wanted = subscription_of(args.app_key, args.action_key, _json_object(args.inputs), args.connection_id)
    named = NamedInbox(hook_of(args), args.name, wanted, args.notification_url)
    inbox, deadline, pause = named.ensured(), clock.monotonic() + args.timeout, WAIT_SECONDS[0]
    while args.wait and inbox["status"] in (INITIALIZING, DELETING):
        left = deadline - clock.monotonic()
        if left <= 0:
            output.note(f"Inbox {args.name!r} was not active within {args.timeout:g} s.")
            return _shown(args, inbox, Exit.FAULT)
        clock.sleep(min(pause, left))
        inbox, pause = named.ensured(), min(2 * pause, WAIT_SECONDS[1])
    if inbox["status"] == FAILED:
        reason = inbox.get("paused_reason") or "no reason given"
        output.note(f"Inbox {args.name!r} failed to initialise ({reason}). Delete it and create it again.")
        return _shown(args, inbox, Exit.FAULT)
    if inbox["status"] == PAUSED:
        output.note(f"Inbox {args.name!r} is paused: new events are dropped until it is resumed.")
    return _shown(args, inbox)


def pause(args: Namespace) -> int:
    """Pause an inbox; one that is paused already is as wanted."""
    hook = hook_of(args)
    return _changed(args, hook, hook.pause_inbox, (PAUSED,))


def resume(args: Namespace) -> int:
    """Resume an inbox; one that is not paused is as wanted."""
    hook = hook_of(args)
    return _changed(args, hook, hook.resume_inbox, (ACTIVE, INITIALIZING))


def _changed(
    args: Namespace, hook: WorkflowHook, change: Callable[[str], types.Inbox], wanted: tuple[str, ...]
) -> int:
    try:
        inbox = change(args.inbox)
    except ConflictError:
        inbox = hook.get_inbox(args.inbox)
        if inbox["status"] not in wanted:
            raise
    return _shown(args, inbox)


def delete(args: Namespace) -> int:
    """Delete an inbox, once a person or ``--yes`` has said so."""
    hook = hook_of(args)
    inbox = hook.get_inbox(args.inbox)
    if not (args.yes or _agreed(inbox)):
        output.note("Nothing was deleted.")
        return Exit.FAULT
    return _shown(args, hook.delete_inbox(inbox["id"]))


def _agreed(inbox: types.Inbox) -> bool:
    """
    Ask a person.

    :raises ValueError: there is nobody to ask.
    """
    if not sys.stdin.isatty():
        raise ValueError("--yes is needed where nobody can be asked")
    output.note(f"Delete the inbox {inbox.get('name')!r} ({inbox['id']}) with all the messages in it? (y/N)")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _json_object(text: str | None) -> dict[str, Any] | None:
    try:
        value = None if text is None else json.loads(text)
    except ValueError as error:
        raise ValueError(f"--inputs is no JSON: {error}") from None
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
    """An inbox without what makes its ``notification_url`` a secret: whoever knows it may call it."""
    url = inbox.get("notification_url")
    return {**inbox, "notification_url": _host_of(url) if url else url}


def _host_of(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return output.MASK
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/{output.MASK}"
