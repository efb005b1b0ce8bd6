"""
DAGs as Airflow's metadata database has them: which of them use an inbox, and whether they can run.

Only the database knows every deployed DAG, so this reads the serialized DAGs, whose form is internal to
Airflow and the same in 3.1 to 3.3: keep it here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

TRIGGERS = "airflow_provider_workflow.triggers."
"""What the import path of each of our triggers begins with."""
DISPATCHING = {"inbox", "trigger_dag_id", "workflow_conn_id"}
"""Template fields that only our sensor and our dispatch operator have, and their subclasses."""
DEFAULT_CONN_ID = "workflow_default"


@dataclass(frozen=True)
class DeployedDag:
    """
    The row of a DAG.

    :param missing: there is no such row, or the DAG is in no DAG file any more.
    """

    dag_id: str
    missing: bool = False
    is_paused: bool = False
    has_import_errors: bool = False


@dataclass(frozen=True)
class InboxUse:
    """
    A task or an asset watcher that waits for, or dispatches, the messages of an inbox.

    :param dag_id: its DAG.
    :param what: how people find it there.
    :param conn_id: its connection; None where that is known only at run time.
    :param inbox: id or name; None where that is known only at run time.
    :param targets: DAGs that it starts, as far as they are known before run time.
    """

    dag_id: str
    what: str
    conn_id: str | None
    inbox: str | None
    targets: tuple[str, ...] = ()


def deployed(dag_id: str, session: Session) -> DeployedDag:
    """The state of a DAG, whether it exists or not."""
    from airflow.models.dag import DagModel

    dag = session.get(DagModel, dag_id)
    if dag is None or dag.is_stale:
        return DeployedDag(dag_id, missing=True)
    return DeployedDag(dag_id, False, bool(dag.is_paused), bool(dag.has_import_errors))


def inbox_uses(session: Session) -> Iterator[InboxUse]:
    """Every use of an inbox in the newest version of every DAG."""
    from airflow.models.dag import DagModel
    from airflow.models.serialized_dag import SerializedDagModel
    from sqlalchemy import Text, cast, or_, select

    stored = SerializedDagModel.__table__.c
    # The database sifts: an Airflow may have thousands of DAGs, each with many versions.
    mentions_us = or_(cast(stored.data, Text).like("%workflow_conn_id%"), stored.data_compressed.is_not(None))
    dag_ids = session.scalars(
        select(stored.dag_id)
        .join(DagModel, DagModel.dag_id == stored.dag_id)
        .where(~DagModel.is_stale, mentions_us)
        .distinct()
        .order_by(stored.dag_id)
    ).all()
    for dag_id in dag_ids:
        newest = session.scalar(SerializedDagModel.latest_item_select_object(dag_id))
        if newest is not None and newest.data:
            yield from _uses_of(dag_id, newest.data["dag"])


def _uses_of(dag_id: str, dag: Mapping[str, Any]) -> Iterator[InboxUse]:
    for task in dag.get("tasks", ()):
        fields = _plain(task)
        if set(fields.get("template_fields", ())) >= DISPATCHING:
            yield _task(dag_id, fields)
    for watcher in _watchers(dag.get("timetable")):
        trigger = watcher["trigger"]
        arguments = _plain(trigger.get("kwargs") or {})
        kind = str(trigger["classpath"]).rpartition(".")[2]
        conn_id = _known(arguments.get("workflow_conn_id", DEFAULT_CONN_ID))
        what = f"asset watcher {watcher.get('name')} ({kind})"
        yield InboxUse(dag_id, what, conn_id, _known(arguments.get("inbox")))


def _task(dag_id: str, fields: Mapping[str, Any]) -> InboxUse:
    """
    Of a mapped task the arguments that it is not expanded over are known.

    The connection is left out of these where it is the default one.
    """
    own: Mapping[str, Any] = fields
    conn_id = fields.get("workflow_conn_id")
    if fields.get("_is_mapped"):
        own = _plain(fields.get("partial_kwargs") or {})
        expanded = "workflow_conn_id" in json.dumps(fields.get("expand_input"))
        conn_id = None if expanded else own.get("workflow_conn_id", DEFAULT_CONN_ID)
    routes = _plain(own.get("trigger_dag_id"))
    targets = [routes] if isinstance(routes, str) else list(routes or ())
    return InboxUse(
        dag_id,
        f"task {fields.get('task_id')} ({fields.get('task_type')})",
        _known(conn_id),
        _known(own.get("inbox")),
        tuple(target for target in targets if _known(target)),
    )


def _watchers(value: Any) -> Iterator[Mapping[str, Any]]:
    """The watchers with triggers of ours among the assets that a timetable waits for."""
    if isinstance(value, list):
        for each in value:
            yield from _watchers(each)
    elif isinstance(value, Mapping):
        trigger = value.get("trigger")
        if isinstance(trigger, Mapping) and str(trigger.get("classpath", "")).startswith(TRIGGERS):
            yield value
        for each in value.values():
            yield from _watchers(each)


def _plain(value: Any) -> Any:
    """What Airflow has wrapped with the name of its type."""
    return value["__var"] if isinstance(value, Mapping) and "__var" in value else value


def _known(value: Any) -> str | None:
    """An argument that is a string and no template; None otherwise."""
    return value if isinstance(value, str) and "{{" not in value and "{%" not in value else None
