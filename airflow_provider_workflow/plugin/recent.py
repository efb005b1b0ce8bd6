"""
The last hour of an inbox, from the runs of its messages: a history in steps, and the acknowledged messages,
which the service no longer lists.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from airflow_provider_workflow import clock
from airflow_provider_workflow.client.failures import one_line
from airflow_provider_workflow.database import dag_runs
from airflow_provider_workflow.database.dag_runs import Entry, Selection, StoredRun
from airflow_provider_workflow.dispatch.dead_letters import RUN_PREFIX
from airflow_provider_workflow.dispatch.rejections import TargetError
from airflow_provider_workflow.dispatch.runs import RUN_ID_PREFIX
from airflow_provider_workflow.plugin import errors
from airflow_provider_workflow.plugin.access import Reader, run_of
from airflow_provider_workflow.plugin.views import text

BUCKETS = 12
BUCKET = timedelta(minutes=5)
MOST_COUNTED = 2_000
"""Runs that a history counts; in one that is cut off, the oldest are missing."""
MOST_SHOWN = 200
"""Runs whose messages are listed, the newest ones."""
OF_A_MESSAGE: dict[str, tuple[str, ...]] = {
    "message_id": ("message", "id"),
    "created_at": ("message", "created_at"),
    "delivery_count": ("message", "message_attributes", "lease_count"),
}
"""Where the conf of a message's run has these."""
OF_A_DEAD_LETTER: tuple[Entry, ...] = ("message_id", "created_at", "delivery_count", "cause")


def history(connection_id: str, inbox_id: str) -> list[dict[str, Any]]:
    """
    What happened in the last hour, in steps of 5 minutes, the oldest first.

    :raises PageError: the database does not answer.
    """
    first = datetime.fromtimestamp(clock.now(), UTC) - BUCKETS * BUCKET
    buckets = [
        {"from": clock.iso(first + number * BUCKET), "arrived": 0, "started": 0, "dead_lettered": 0}
        for number in range(BUCKETS)
    ]
    arrived: dict[str, datetime | None] = {}
    moments = []
    for run in _runs(connection_id, inbox_id, (OF_A_MESSAGE["created_at"], "created_at"), MOST_COUNTED):
        is_dead = _is_dead(run)
        moments.append(("dead_lettered" if is_dead else "started", run.run_after))
        # A dead letter that was replayed has two runs, and arrived once.
        name = "created_at" if is_dead else OF_A_MESSAGE["created_at"]
        arrived[_key(run)] = clock.moment_of(run.conf[name])
    for name, moment in [*moments, *(("arrived", each) for each in arrived.values())]:
        number = -1 if moment is None else (moment - first) // BUCKET
        if 0 <= number < BUCKETS:
            bucket: dict[str, Any] = buckets[number]
            bucket[name] += 1
    return buckets


def started(connection_id: str, inbox_id: str, listed: Collection[str]) -> list[StoredRun]:
    """
    The newest runs of messages that the service no longer lists.

    :param listed: the ids that the runs of the listed messages have.
    :raises PageError: the database does not answer.
    """
    entries: tuple[Entry, ...] = (*OF_A_MESSAGE.values(), *OF_A_DEAD_LETTER)
    known = set(listed)
    return [run for run in _runs(connection_id, inbox_id, entries, MOST_SHOWN) if run.run_id not in known]


def messages_of(runs: Sequence[StoredRun], reader: Reader) -> list[dict[str, Any]]:
    """The messages of such runs, as JSON; of the runs that the user may read."""
    found: dict[str, dict[str, Any]] = {}
    for run in runs:
        if not reader.may_read_runs(run.dag_id):
            continue
        message = found.setdefault(_key(run), _message(run))
        message["dead_letter" if _is_dead(run) else "run"] = run_of(run.dag_id, run.run_id, run.state)
        if message["run"]:
            message |= {"status": "started", "error_message": None}
    return list(found.values())


def _runs(connection_id: str, inbox_id: str, entries: tuple[Entry, ...], most: int) -> list[StoredRun]:
    since = datetime.fromtimestamp(clock.now(), UTC) - BUCKETS * BUCKET
    conf = {"connection_id": connection_id, "inbox_id": inbox_id}
    selection = Selection(RUN_ID_PREFIX, since=since, conf=conf)
    try:
        pages = dag_runs.pages(selection, entries, size=min(most, dag_runs.PAGE))
        return list(islice((run for page in pages for run in page), most))
    except TargetError as error:
        raise errors.database_away(error) from None


def _message(run: StoredRun) -> dict[str, Any]:
    def entry(name: str) -> str | None:
        return run.conf[name if _is_dead(run) else OF_A_MESSAGE[name]]

    return {
        "id": text(entry("message_id")) or run.run_id,
        "status": "dead-lettered",
        "created_at": clock.normal(entry("created_at")),
        "delivery_count": dag_runs.number(entry("delivery_count")) or 0,
        "error_message": one_line(run.conf["cause"] or "") or None,
        "possible_duplicate": False,
        "run": None,
        "dead_letter": None,
    }


def _is_dead(run: StoredRun) -> bool:
    return run.run_id.startswith(RUN_PREFIX)


def _key(run: StoredRun) -> str:
    """What the runs of one message have in common."""
    return run.run_id.removeprefix(RUN_PREFIX if _is_dead(run) else RUN_ID_PREFIX)
