"""
The DAGs that listen to the inboxes of a connection, as the page shows them, and what is wrong with them.

A user sees only DAGs, and states of runs, that Airflow shows them too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import quote

from airflow_provider_workflow import airflow_internals, findings
from airflow_provider_workflow.database import dag_runs
from airflow_provider_workflow.database.dag_runs import EndedRun, database
from airflow_provider_workflow.database.inbox_uses import InboxUse
from airflow_provider_workflow.findings import Finding
from airflow_provider_workflow.plugin import access, service
from airflow_provider_workflow.plugin.access import PageUser, run_of
from airflow_provider_workflow.plugin.responses import MAX_FIELD_LENGTH
from airflow_provider_workflow.plugin.service import Fields, text
from airflow_provider_workflow.source import problem_of

MAX_MISSING = 20
"""Listeners of missing inboxes that one answer explains: for each, all names are compared."""


@dataclass(frozen=True)
class Listeners:
    """
    What deployed DAGs do with the inboxes of a connection.

    :param uses: all that may be of it, those of DAGs that the user may not read among them.
    :param readable: those that are of it, of DAGs that the user may read.
    :param dags: these DAGs as JSON, by their ids.
    :param deployed: the rows of these DAGs, and of those that they need, by their ids.
    """

    uses: list[InboxUse]
    readable: list[InboxUse]
    dags: dict[str, Fields]
    deployed: dict[str, Any]

    def of(self, *names: str | None) -> list[Fields]:
        """The DAGs that listen to the inbox with this id or name, as JSON, with the tasks that do so."""
        tasks: dict[str, list[Fields]] = {}
        for use in self.readable:
            if use.inbox in names:
                of_dag = tasks.setdefault(use.dag_id, [])
                if not use.is_watcher:
                    of_dag.append({"task_id": use.task_id, "dead_letter_dag_id": use.dead_letter_dag_id})
        return [{**self.dags[dag_id], "tasks": of_dag} for dag_id, of_dag in tasks.items()]


def listeners_of(connection_id: str, reader: PageUser, names: Collection[str | None] | None) -> Listeners:
    """
    The listeners of a connection.

    :param names: ids and names of the only inboxes whose listeners are wanted; None for all.
    """
    uses = [use for use in service.uses() if use.conn_id in (None, connection_id)]
    named = [use for use in uses if use.conn_id and use.inbox and (names is None or use.inbox in names)]
    may_read = [use for use in named if reader.may("read", use.dag_id)]
    deployed = _deployed(findings.needed_dags(may_read)) if may_read else {}
    readable = [use for use in may_read if use.dag_id in deployed]
    dags = {
        dag_id: {
            "dag_id": dag_id,
            "is_paused": deployed[dag_id].is_paused,
            "url": access.dag_url(dag_id),
            "last_run": _last_run(dag_id, reader),
        }
        for dag_id in dict.fromkeys(use.dag_id for use in readable)
    }
    return Listeners(uses, readable, dags, deployed)


def _deployed(dag_ids: Collection[str]) -> dict[str, Any]:
    """The rows of those of these DAGs that a DAG file contains, by their ids; of all with one query."""
    with database() as session:
        return airflow_internals.deployed_dags(dag_ids, session)


def _last_run(dag_id: str, reader: PageUser) -> Fields | None:
    """The last run of a listener that has ended, with the path of the log of the task that failed."""
    run = _last_ended().get(dag_id) if reader.may("read runs", dag_id) else None
    if run is None:
        return None
    fields = run_of(dag_id, run.run_id, run.state)
    if run.failed_task is not None:
        task_id, map_index = run.failed_task
        fields["url"] += f"/tasks/{quote(task_id, safe='')}"
        fields["url"] += f"/mapped/{map_index}" if map_index >= 0 else ""
    return {**fields, "ended_at": run.ended_at and run.ended_at.isoformat()}


def _last_ended() -> dict[str, EndedRun]:
    """The last run that has ended, of each DAG that uses an inbox."""

    def read() -> Fields:
        return {"runs": dag_runs.last_ended({use.dag_id for use in service.uses()})}

    runs: dict[str, EndedRun] = service.cached(service.LAST_RUNS, read)["runs"]
    return runs


def missing_inboxes(inboxes: Iterable[Fields], listeners: Listeners) -> list[Fields]:
    """
    The inboxes that do not exist, and to which a DAG listens, as JSON.

    :param inboxes: all that exist.
    """
    existing = {name for inbox in inboxes for name in findings.names_of(inbox)}
    missing = dict.fromkeys(use.inbox for use in listeners.readable if use.inbox not in existing)
    return [
        {
            **dict.fromkeys(("id", "paused_reason", "paused_text", "no_listener", "summary", "runs")),
            "name": name,
            "status": "missing",
            "is_alarm": True,
            "listeners": listeners.of(name),
        }
        for name in missing
    ]


def findings_of(
    connection_id: str, inboxes: list[Fields], listeners: Listeners, reader: PageUser, *, is_whole: bool
) -> list[Fields]:
    """
    What a user must correct, so that events arrive and each listener gets its messages; the worst first.

    These are inboxes that the service has paused or failed to set up, those that a DAG listens to but that do
    not exist, those with several listeners, and DAGs that a listener needs but that can have no runs.

    :param is_whole: these are all inboxes of the connection.
    """
    entries: list[tuple[Finding, str | None, list[Fields]]] = []
    for inbox in inboxes:
        title, dags = inbox["name"] or inbox["id"], listeners.of(inbox["id"], inbox["name"])
        problem = problem_of(inbox, title, connection_id, resume="press Resume on its page")
        if problem is not None and problem.is_alarm() and problem.fix:
            finding = Finding(f"inbox {title}", findings.FAILED, problem.state, problem.fix)
            entries.append((finding, inbox["id"], dags))
        if (several := findings.several_listeners(inbox, listeners.readable)) is not None:
            entries.append((several, inbox["id"], []))
    if is_whole:
        missing = findings.missing_inboxes(listeners.readable, inboxes, connection_id)
        entries += [(of, None, [listeners.dags[use.dag_id]]) for use, of in islice(missing, MAX_MISSING)]
    inbox_ids: dict[str | None, str] = {
        name: inbox["id"] for inbox in inboxes for name in findings.names_of(inbox)
    }
    for use, dag_id, finding in findings.dag_findings(listeners.readable, listeners.deployed):
        if finding.status != findings.FAILED:
            continue
        # The arguments of a listener name a missing DAG; what is wrong with a deployed one needs permission.
        if dag_id not in listeners.deployed or reader.may("read", dag_id):
            entries.append((finding, inbox_ids.get(use.inbox), [listeners.dags[use.dag_id]]))
    entries.sort(key=lambda entry: entry[0].status != findings.FAILED)
    since = _failing_since(connection_id, [dag["dag_id"] for *_, dags in entries for dag in dags], reader)
    return [
        {
            **{name: text(value, MAX_FIELD_LENGTH) for name, value in finding._asdict().items()},
            "inbox": inbox_id,
            "dags": [{"dag_id": dag["dag_id"], "url": dag["url"]} for dag in dags],
            "failing_since": min(filter(None, (since.get(dag["dag_id"]) for dag in dags)), default=None),
        }
        for finding, inbox_id, dags in entries
    ]


def _failing_since(connection_id: str, dag_ids: Iterable[str], reader: PageUser) -> dict[str, Any]:
    """When each of these DAGs began to fail, of those that do."""
    readable = tuple(sorted({dag_id for dag_id in dag_ids if reader.may("read runs", dag_id)}))

    def read() -> Fields:
        return {dag_id: time.isoformat() for dag_id, time in dag_runs.failing_since(readable).items()}

    return service.cached((connection_id, "failing", *readable), read) if readable else {}
