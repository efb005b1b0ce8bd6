"""The messages of an inbox with their DAG runs, its dead letters, and the message of a DAG run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any

from airflow_provider_workflow import clock
from airflow_provider_workflow.database import dag_runs
from airflow_provider_workflow.database.dag_runs import FoundRun, Selection, StoredRun
from airflow_provider_workflow.database.dead_letters import ENTRIES, StoredDeadLetter, with_replays
from airflow_provider_workflow.dispatch.dead_letters import LONGEST_CAUSE, RUN_PREFIX
from airflow_provider_workflow.dispatch.rejections import TargetError
from airflow_provider_workflow.dispatch.runs import RUN_ID_PREFIX
from airflow_provider_workflow.plugin import (
    airflow_server,
    errors,
    inboxes,
    listeners,
    recent,
    service,
)
from airflow_provider_workflow.plugin.access import Reader, run_of
from airflow_provider_workflow.plugin.views import text

OF_A_MESSAGE = ("run", "dead_letter")
MOST_DEAD_LETTERS = 200
"""The newest ones that are shown."""


def listing(connection_id: str, inbox_id: str, cursor: str | None, reader: Reader) -> dict[str, Any]:
    """
    Up to 500 messages, each with its run.

    The first page ends with the acknowledged ones of the last hour. It also has the answer that the route of
    the inbox gives, unless the inbox could not be read, so that a browser that shows both needs one request.

    :raises PageError: they cannot be listed.
    """
    fetch = partial(_fetched, connection_id, inbox_id, cursor)
    kept = service.ANSWERS.get((connection_id, "messages", inbox_id, cursor), fetch)
    found: _Fetched = kept.fetched()
    answer: dict[str, Any] = {
        "messages": [
            *(shown(message, found.runs, reader) for message in found.pages.items),
            *recent.messages_of(found.started, reader),
        ],
        "next": found.pages.following,
        "fetched_at": clock.iso(kept.fetched_at),
    }
    if found.inbox is not None:
        answer["inbox"] = inboxes.listed(connection_id, found.inbox, kept.fetched_at, reader)
    return answer


Runs = dict[str, list[FoundRun]]


@dataclass(frozen=True)
class _Fetched:
    """
    Messages of an inbox.

    :param inbox: that inbox; on the first page only, and None also if it could not be read.
    :param runs: of these messages, by run id.
    :param started: the runs of acknowledged messages; on the first page only.
    """

    inbox: service.Pages | None
    pages: service.Pages
    runs: Runs
    started: list[StoredRun]

    def __len__(self) -> int:
        return len(self.pages) + len(self.started)


def _fetched(connection_id: str, inbox_id: str, cursor: str | None) -> _Fetched:
    if cursor is None:
        inbox, pages = service.read_inbox(connection_id, inbox_id)
        inboxes.keep_summary(connection_id, inbox_id, pages)
    else:
        inbox, pages = None, service.list_messages(connection_id, inbox_id, cursor)
    run_ids = [message[name] for name in OF_A_MESSAGE for message in pages.items if message[name]]
    created = [moment for message in pages.items if (moment := clock.moment_of(message["created_at"]))]
    started = recent.started(connection_id, inbox_id, run_ids) if cursor is None else []
    runs = _runs_of(connection_id, inbox_id, run_ids, min(created, default=None))
    return _Fetched(inbox, pages, runs, started)


def _runs_of(connection_id: str, inbox_id: str, run_ids: Sequence[str], since: datetime | None) -> Runs:
    """The runs of messages, and their dead letters: in the targets of the inbox, and in DAGs since then."""
    targets = listeners.targets_of(connection_id)
    found: Runs = {}
    try:
        for start in range(0, len(run_ids), dag_runs.PAGE):
            some = dict.fromkeys(run_ids[start : start + dag_runs.PAGE], inbox_id)
            found |= dag_runs.runs_of(some, targets, since)
    except TargetError as error:
        raise errors.database_away(error) from None
    return found


def shown(message: dict[str, Any], runs: Runs, reader: Reader) -> dict[str, Any]:
    """
    A message with its runs, as JSON.

    :param message: as ``views.message_of`` makes it.
    """
    found = {name: reader.run(message[name], runs.get(message[name], [])) for name in OF_A_MESSAGE}
    return {**message, **found}


def dead_letters(connection_id: str, inbox_id: str, reader: Reader) -> dict[str, Any]:
    """
    The newest dead letters of an inbox, of those DAGs whose runs the user may read.

    :raises PageError: the database does not answer.
    """
    kept = service.ANSWERS.get(
        (connection_id, "dead letters", inbox_id), partial(_buried, connection_id, inbox_id)
    )
    found: list[StoredDeadLetter] = kept.fetched()
    shown = [each for each in found[:MOST_DEAD_LETTERS] if reader.may_read_runs(each.run.dag_id)]
    return {
        "dead_letters": [_dead_letter(each, reader) for each in shown],
        "is_partial": len(found) > MOST_DEAD_LETTERS,
        "fetched_at": clock.iso(kept.fetched_at),
    }


def _buried(connection_id: str, inbox_id: str) -> list[StoredDeadLetter]:
    service.check_connection(connection_id)
    selection = Selection(RUN_PREFIX, conf={"connection_id": connection_id, "inbox_id": inbox_id})
    try:
        pages = dag_runs.pages(selection, ENTRIES, size=MOST_DEAD_LETTERS + 1)
        return list(
            with_replays(list(islice((run for page in pages for run in page), MOST_DEAD_LETTERS + 1)))
        )
    except TargetError as error:
        raise errors.database_away(error) from None


def _dead_letter(letter: StoredDeadLetter, reader: Reader) -> dict[str, Any]:
    run, conf = letter.run, letter.run.conf
    return {
        **run_of(run.dag_id, run.run_id, run.state),
        "started_at": clock.iso(run.run_after),
        "message_id": text(letter.message_id),
        "reason": text(conf["reason"]),
        "cause": text(conf["cause"], LONGEST_CAUSE),
        "delivery_count": letter.delivery_count,
        "created_at": clock.normal(conf["created_at"]),
        "target_dag_id": text(conf["target_dag_id"]),
        "started_by": _starter(run),
        "replayed": reader.run(letter.replay_run_id, letter.replays),
    }


def _starter(run: StoredRun) -> str:
    """Who started the run of a dead letter, in words."""
    starter = {"operator": "a task", "cli": "the command line"}.get(run.triggered_by, run.triggered_by)
    return starter if run.user is None else f"{starter}, for {run.user}"


def of_run(dag_id: str, run_id: str, reader: Reader) -> dict[str, Any]:
    """
    The message that a DAG run was started for; None if it was started for something else.

    :raises PageError: the database does not answer.
    """
    is_dead = run_id.startswith(RUN_PREFIX)
    of_message: tuple[dag_runs.Entry, ...] = ("connection_id", "inbox_id", *recent.OF_A_MESSAGE.values())
    entries = ENTRIES if is_dead else of_message
    try:
        run = dag_runs.found(dag_id, run_id, entries) if run_id.startswith(RUN_ID_PREFIX) else None
    except TargetError as error:
        raise errors.database_away(error) from None
    if run is None or not run.conf["inbox_id"]:
        return {"message": None}
    return {"message": _message_of(run, is_dead, reader)}


def _message_of(run: StoredRun, is_dead: bool, reader: Reader) -> dict[str, Any]:
    def entry(name: str) -> str | None:
        return run.conf[name if is_dead else recent.OF_A_MESSAGE[name]]

    connection_id = run.conf["connection_id"]
    may_use = connection_id and airflow_server.may_use_connection(reader.user, connection_id)
    return {
        "kind": "dead_letter" if is_dead else "message",
        "inbox_id": text(run.conf["inbox_id"]),
        "connection_id": connection_id if may_use else None,
        "message_id": text(entry("message_id")) or run.run_id,
        "delivery_count": dag_runs.number(entry("delivery_count")),
        "created_at": clock.normal(entry("created_at")),
        "reason": text(run.conf["reason"]) if is_dead else None,
        "cause": text(run.conf["cause"], LONGEST_CAUSE) if is_dead else None,
    }
