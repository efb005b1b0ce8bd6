"""
The routes of the page for inboxes, and for messages with their DAG runs.

They are plain functions, so that FastAPI runs them in threads: they read the database and call the service,
and must never block the event loop, which also serves the requests of running tasks.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain, islice
from typing import Any, Literal

from fastapi import APIRouter
from fastapi.responses import Response

from airflow_provider_workflow import clock, findings, moments
from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.inboxes import count_messages
from airflow_provider_workflow.database import dag_runs
from airflow_provider_workflow.database.dag_runs import Entry, Selection, StoredRun
from airflow_provider_workflow.dispatch.runs import DEAD_LETTER_PREFIX, RUN_ID_PREFIX
from airflow_provider_workflow.plugin import access, service
from airflow_provider_workflow.plugin.access import INBOX, PageUser, User, run_of
from airflow_provider_workflow.plugin.listeners import findings_of, listeners_of, missing_inboxes
from airflow_provider_workflow.plugin.responses import PageError, answer
from airflow_provider_workflow.plugin.service import Fields, text
from airflow_provider_workflow.source import problem_of
from airflow_provider_workflow.text import escaped, one_line

log = logging.getLogger(__name__)

RECENT = timedelta(hours=1)
MAX_COUNTED_RUNS = 5_000
"""Runs of the last hour that are counted for a connection, the newest ones."""
MAX_LISTED_RUNS = 200
"""Runs of the last hour whose messages are listed, the newest ones."""
OF_A_MESSAGE: dict[str, Entry] = {
    "message_id": dag_runs.MESSAGE_ID,
    "created_at": ("message", "created_at"),
    "delivery_count": ("message", "message_attributes", "lease_count"),
}
"""Where the conf of a message's run has what that of a dead letter has under its name."""
CHANGES = {"pause": (api.pause_inbox, "paused"), "resume": (api.resume_inbox, "resumed")}

user_routes, connection_routes, change_routes = APIRouter(), APIRouter(), APIRouter()
"""The routes of any user, of those who may read the connection, and of those who may edit it."""


@user_routes.get("/connections")
def list_connections(reader: User) -> Response:
    """The connections of the type Workflow that the user may read."""
    readable = [{"connection_id": connection_id} for connection_id in access.connections(reader)]
    return answer({"connections": readable, "may_add": reader.may_use_connection(None, "POST")})


@connection_routes.get("/connections/{connection_id}/inboxes")
def list_inboxes(connection_id: str, reader: User, cursor: str | None = None) -> Response:
    """The inboxes of a connection, up to 500."""
    fetch = partial(service.list_inboxes, connection_id, cursor)
    listing = service.cached((connection_id, "inboxes", cursor), fetch)
    is_whole = not (cursor or listing["next"])
    return answer(_listed(connection_id, listing, reader, is_whole=is_whole))


@connection_routes.get(INBOX)
def show_inbox(connection_id: str, inbox_id: str, reader: User) -> Response:
    """A list of one inbox, which may be given by its name."""
    return answer(_one(connection_id, inbox_id, reader))


def _one(connection_id: str, inbox_id: str, reader: PageUser) -> Fields:
    fetch = partial(service.get_inbox, connection_id, inbox_id)
    listing = service.cached((connection_id, "inbox", inbox_id), fetch)
    return _listed(connection_id, listing, reader)


def _listed(connection_id: str, listing: Fields, reader: PageUser, *, is_whole: bool = False) -> Fields:
    """
    A list of inboxes with their listeners and runs, and what is wrong with them.

    :param is_whole: these are all inboxes of the connection, so that it is known which ones are missing.
    """
    inboxes = listing["inboxes"]
    names = {name for inbox in inboxes for name in (inbox["id"], inbox["name"])}
    listeners = listeners_of(connection_id, reader, None if is_whole else names)
    runs, without, large = _recent_runs(connection_id, reader)
    shown = []
    for inbox in inboxes:
        messages = service.known((connection_id, "messages", inbox["id"], None))
        counted = _counted(messages) if isinstance(messages, dict) else None
        nobody = findings.no_listener(inbox, listeners.uses)
        shown.append(
            {
                **_inbox(inbox),
                "listeners": listeners.of(inbox["id"], inbox["name"]),
                "no_listener": nobody and f"{nobody.detail}: {nobody.fix}",
                "summary": counted,
                "runs": runs.get(inbox["id"], without),
            }
        )
    return {
        **listing,
        "inboxes": shown + (missing_inboxes(inboxes, listeners) if is_whole else []),
        "large_runs": large,
        "findings": findings_of(connection_id, inboxes, listeners, reader, is_whole=is_whole),
    }


def _inbox(shown: Fields) -> Fields:
    """An inbox with what is wrong with it, and the fix."""
    problem = problem_of(shown, shown["id"], "", resume="press Resume")
    paused_text = f"{problem.state}. {problem.fix}" if problem and problem.fix else None
    return {**shown, "paused_text": paused_text, "is_alarm": problem is not None and problem.is_alarm()}


def _recent_runs(connection_id: str, reader: PageUser) -> tuple[dict[str, Fields], Fields | None, int]:
    """
    By inbox: how many runs of the last hour are in which state, and how many are dead letters.

    Then that of all other inboxes: None if older runs were not counted. Then how many runs were not counted
    because their conf, which names connection and inbox, is too large to be read.
    """

    def count() -> Fields:
        counted: dict[str, Any] = defaultdict(Counter)
        newest = _newest(connection_id, None, ("inbox_id",), MAX_COUNTED_RUNS)
        for run in newest:
            state = "dead_letter" if _is_dead(run) else run.state
            counted[run.dag_id][run.conf["inbox_id"] or "", state] += 1
        large = dag_runs.counts_by_dag(Selection(RUN_ID_PREFIX, since=_an_hour_ago(), is_large=True))
        return {"by_dag": counted, "without": {} if len(newest) < MAX_COUNTED_RUNS else None, "large": large}

    recent = service.cached((connection_id, "recent runs"), count)
    runs: dict[str, Fields] = defaultdict(Counter)
    for dag_id, counts in recent["by_dag"].items():
        if reader.may("read runs", dag_id):
            for (inbox_id, state), number in counts.items():
                runs[inbox_id][state] += number
    large = sum(number for dag_id, number in recent["large"].items() if reader.may("read runs", dag_id))
    return runs, recent["without"], large


def _newest(
    connection_id: str,
    inbox_id: str | None,
    entries: tuple[Entry, ...],
    most: int,
) -> list[StoredRun]:
    """The newest runs of the last hour, those of dead letters included, without those of large confs."""
    names = {"connection_id": connection_id, "inbox_id": inbox_id}
    conf = {name: value for name, value in names.items() if value is not None}
    selection = Selection(RUN_ID_PREFIX, since=_an_hour_ago(), conf=conf, is_large=False)
    pages = dag_runs.pages(selection, entries, size=min(most, dag_runs.MAX_PAGE_SIZE))
    return list(islice(chain.from_iterable(pages), most))


def _an_hour_ago() -> datetime:
    return datetime.fromtimestamp(clock.now(), UTC) - RECENT


def _is_dead(run: StoredRun) -> bool:
    return run.run_id.startswith(DEAD_LETTER_PREFIX)


@connection_routes.get(INBOX + "/summary")
def summary(connection_id: str, inbox_id: str) -> Response:
    """The numbers of the messages of an inbox."""
    return answer(_counted(_messages(connection_id, inbox_id, None)))


def _messages(connection_id: str, inbox_id: str, cursor: str | None) -> Fields:
    fetch = partial(service.list_messages, connection_id, inbox_id, cursor)
    return service.cached((connection_id, "messages", inbox_id, cursor), fetch)


def _counted(listing: Fields) -> Fields:
    counts = count_messages(listing["messages"])
    return {
        "oldest_created_at": counts.pop("oldest_created_at"),
        "counts": counts,
        "is_partial": listing["next"] is not None,
        "fetched_at": listing["fetched_at"],
    }


@change_routes.post(INBOX + "/{verb}")
def change(connection_id: str, inbox_id: str, verb: Literal["pause", "resume"], reader: User) -> Response:
    """Pause an inbox, so that the service drops new events, or resume it."""
    make, done = CHANGES[verb]
    try:
        with service.slot(), service.connected(connection_id) as client:
            changed = service.inbox_of(client.send(make(inbox_id)))
    finally:
        service.forget(connection_id)
    name, by = escaped(str(changed["name"] or changed["id"])), escaped(reader.name)
    log.info("Inbox %s of the connection %s: %s by %s", name, connection_id, done, by)
    return answer(_inbox(changed))


@connection_routes.get(INBOX + "/messages")
def list_messages(
    connection_id: str,
    inbox_id: str,
    reader: User,
    cursor: str | None = None,
) -> Response:
    """
    Up to 500 messages without payloads, each with its run.

    The first page also has the messages of the runs of the last hour. Unless the inbox cannot be read,
    it has the answer of the inbox too, so that a browser needs one request for both.
    """
    listing = _messages(connection_id, inbox_id, cursor)
    fetch = partial(_runs_of, connection_id, inbox_id, listing)
    runs = service.cached((connection_id, "runs", inbox_id, cursor), fetch)
    listed = [_with_runs(message, runs["by_id"], reader) for message in listing["messages"]]
    shown = {**listing, "messages": listed}
    if cursor is None:
        names = ("run", "dead_letter")
        in_service = {message[name] for message in listing["messages"] for name in names}
        by_id = {message["id"]: message for message in listed}
        acknowledged = [run for run in runs["recent"] if run.run_id not in in_service]
        for message in _acknowledged(acknowledged, reader):
            # The run of a business key has another id than its message.
            if (same := by_id.get(message["id"])) is not None and same["run"] is None:
                same["run"] = message["run"]
            else:
                listed.append(message)
        try:
            shown["inbox"] = _one(connection_id, inbox_id, reader)
        except PageError:
            log.debug("Inbox %s cannot be read, its messages can", escaped(inbox_id))
    return answer(shown)


def _runs_of(connection_id: str, inbox_id: str, listing: Fields) -> Fields:
    """The runs of messages by run id, and the newest runs of the last hour."""
    listed = listing["messages"]
    names = ("run", "dead_letter")
    run_ids = [message[name] for message in listed for name in names if message[name]]
    created = [moments.moment_of(message["created_at"]) or _an_hour_ago() for message in listed]
    since, inbox_ids = min(created, default=None), dict.fromkeys(run_ids, inbox_id)
    by_id = dag_runs.runs_of(inbox_ids, (), since, omit_large_confs=True)
    entries = (*OF_A_MESSAGE.values(), *OF_A_MESSAGE, "cause")
    return {"by_id": by_id, "recent": _newest(connection_id, inbox_id, entries, MAX_LISTED_RUNS)}


def _with_runs(message: Fields, runs: dict[str, list[StoredRun]], reader: PageUser) -> Fields:
    names = ("run", "dead_letter")
    return message | {name: reader.run(message[name], runs.get(message[name], [])) for name in names}


def _acknowledged(runs: Iterable[StoredRun], reader: PageUser) -> list[Fields]:
    """The messages of runs, as JSON; of those runs that the user may read."""
    shown: dict[str, Fields] = {}
    for run in runs:
        if not reader.may("read runs", run.dag_id):
            continue
        message = _message_of(run)
        message = shown.setdefault(message["id"], message)
        message["dead_letter" if _is_dead(run) else "run"] = run_of(run.dag_id, run.run_id, run.state)
        if message["run"]:
            message |= {"status": "started", "error_message": None}
    return list(shown.values())


def _message_of(run: StoredRun) -> Fields:
    def entry(name: str) -> str | None:
        return run.conf[name if _is_dead(run) else OF_A_MESSAGE[name]]

    return {
        "id": text(entry("message_id")) or run.run_id,
        "status": "dead-lettered",
        "created_at": moments.normal(entry("created_at")),
        "delivery_count": dag_runs.int_or_none(entry("delivery_count")) or 0,
        "error_message": one_line(run.conf["cause"] or "") or None,
        "possible_duplicate": False,
        "run": None,
        "dead_letter": None,
    }
