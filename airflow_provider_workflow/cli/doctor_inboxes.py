"""Checks of ``doctor``: states of inboxes, and messages that are, or soon will be, quarantined."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from itertools import islice

from airflow_provider_workflow import types
from airflow_provider_workflow.cli.doctor_findings import FAILED, OK, SKIPPED, WARNING, Finding, Subject
from airflow_provider_workflow.client import api, inboxes
from airflow_provider_workflow.client.advice import DROPPED, fix_of_pause
from airflow_provider_workflow.client.errors import NotFoundError, WorkflowError
from airflow_provider_workflow.dispatch.lease import delivery_count

Verdict = tuple[str, str | None]
"""The status of a finding, and its fix."""

MOST_INBOXES = 50
MOST_PAGES = 50
"""Maximum number of pages that are read of one inbox."""
SHOWN_IDS = 3
DEFAULT = "workflow_default"
HIGH_DELIVERY_COUNT = 3

RESUME = "airflow-workflow inbox resume {inbox}"
RECREATE = "delete it (airflow-workflow inbox delete {inbox}), and create it again"
STATES: dict[str, Verdict] = {
    "active": (OK, None),
    "initializing": (WARNING, "wait, and run doctor again if it takes longer than a few minutes"),
    "initialization_failure": (FAILED, RECREATE),
    "deleting": (WARNING, "nothing, if the deletion is intended; its name is free once it is deleted"),
}
OTHER_STATE: Verdict = (WARNING, "this provider does not know this state; update the provider")


def examine_inboxes(subject: Subject) -> Iterator[Finding]:
    try:
        found = _inboxes(subject)
    except NotFoundError:
        detail = f"inbox {subject.inbox!r} does not exist"
        yield Finding(
            "inboxes", FAILED, detail, "create it, or list the existing ones: airflow-workflow inbox list"
        )
        return
    except WorkflowError as error:
        yield Finding("inboxes", FAILED, str(error), "transient error; run doctor again")
        return
    if not found:
        yield Finding("inboxes", OK, "there are no inboxes yet")
    subject.inboxes = found[:MOST_INBOXES]
    for inbox in subject.inboxes:
        yield from _inbox(subject, inbox)
    if len(found) > MOST_INBOXES:
        detail = f"{len(found) - MOST_INBOXES} more were not examined"
        yield Finding("inboxes", WARNING, detail, "examine them with --inbox")


def _inboxes(subject: Subject) -> list[types.Inbox]:
    client, settings = subject.inbox_client, subject.settings
    if subject.inbox is None:
        return client.run(inboxes.all_inboxes())
    return [client.run(inboxes.at_inbox(settings, subject.inbox, api.get_inbox))]


def _inbox(subject: Subject, inbox: types.Inbox) -> Iterator[Finding]:
    name = inbox.get("name") or inbox["id"]
    yield _state(subject, name, inbox)
    lost, leases = f"quarantine {name}", f"leases {name}"
    if inbox["status"] in ("initialization_failure", "deleting"):
        detail = f"not examined: the inbox is {inbox['status']}"
        yield from (Finding(check, SKIPPED, detail) for check in (lost, leases))
        return
    try:
        messages, more = subject.inbox_client.run(inboxes.first_messages(inbox["id"], MOST_PAGES))
    except WorkflowError as error:
        yield from (
            Finding(check, FAILED, str(error), "transient error; run doctor again")
            for check in (lost, leases)
        )
        return
    yield _quarantined(lost, messages, more)
    yield _often_leased(leases, messages, more)


def _state(subject: Subject, name: str, inbox: types.Inbox) -> Finding:
    check, status, reason = f"inbox {name}", inbox["status"], inbox.get("paused_reason")
    if status == "paused":
        level = WARNING if reason == "user" else FAILED
        fix: str | None = fix_of_pause(reason, resume=RESUME, recreate=RECREATE)
        detail = f"paused ({reason or 'no reason given'}): {DROPPED}"
    else:
        level, fix = STATES.get(status, OTHER_STATE)
        detail = f"{status} ({reason})" if reason else status
    return Finding(check, level, detail, fix and fix.format(inbox=_argument(subject, name)))


def _argument(subject: Subject, name: str) -> str:
    """The arguments that name the inbox on the command line."""
    quoted = shlex.quote(name)
    return quoted if subject.conn_id == DEFAULT else f"{quoted} --conn-id {shlex.quote(subject.conn_id)}"


def _quarantined(check: str, messages: Sequence[types.ListedMessage], more: bool) -> Finding:
    ids = [str(message.get("id")) for message in messages if message.get("status") == "quarantined"]
    if not ids:
        return Finding(check, OK, f"none of {_count(messages, more)} is quarantined")
    fix = "they start no runs any more: handle them manually; the log of the listener says why they failed"
    return Finding(check, WARNING, f"{len(ids)} of {_count(messages, more)} quarantined: {_named(ids)}", fix)


def _often_leased(check: str, messages: Sequence[types.ListedMessage], more: bool) -> Finding:
    """Report messages with a high delivery count, among those that can still be leased."""
    among = f" among the first {len(messages)}" if more else ""
    live = [message for message in messages if message.get("status") in ("available", "leased")]
    ids = [
        str(message.get("id")) for message in live if (delivery_count(message) or 0) >= HIGH_DELIVERY_COUNT
    ]
    if not live:
        return Finding(check, OK, f"no message is available or leased{among}")
    counted = f"{_count(live, False)} that can be leased{among}"
    high = f"a delivery count of {HIGH_DELIVERY_COUNT} or more"
    if not ids:
        return Finding(check, OK, f"none of {counted} has {high}")
    fix = "check the log of the listener for the reason; a message has about 5 deliveries in total"
    return Finding(check, WARNING, f"{len(ids)} of {counted} have {high}: {_named(ids)}", fix)


def _count(messages: Sequence[types.ListedMessage], more: bool) -> str:
    return f"{'the first ' if more else ''}{len(messages)} message{'' if len(messages) == 1 else 's'}"


def _named(ids: Sequence[str]) -> str:
    return ", ".join(islice(ids, SHOWN_IDS)) + (", ..." if len(ids) > SHOWN_IDS else "")
