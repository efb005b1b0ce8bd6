"""
Finds the tasks and asset watchers of deployed DAGs that use inboxes, in the serialized DAGs of the database.

The value of an argument is known only at run time if it is a template, or if the expansion of a mapped task
may give it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow import airflow_internals
from airflow_provider_workflow.client.inboxes import is_id
from airflow_provider_workflow.hooks.workflow import DEFAULT_CONN_ID

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

TRIGGERS_PREFIX = "airflow_provider_workflow.triggers."
"""Prefix of the import paths of this provider's triggers."""
DISPATCHER_FIELDS = {"inbox", "trigger_dag_id", "workflow_conn_id"}
"""A task with these template fields is a sensor or a dispatch operator, or one of a subclass of theirs."""
BATCH_TASK_FIELDS = {"inbox", "dead_letter_dag_id", "workflow_conn_id", "op_args"}
"""A task with these template fields is a ``@task.workflow_inbox``."""


@dataclass(frozen=True)
class InboxUse:
    """
    A task or an asset watcher that waits for, or dispatches, the messages of an inbox.

    :param dag_id: its DAG.
    :param is_watcher: whether it is an asset watcher.
    :param conn_id: id of its connection; None if known only at run time.
    :param inbox: id or name; None if known only at run time.
    :param targets: the target DAGs that are known before run time.
    :param dead_letter_dag_id: its dead-letter DAG, if that is known before run time.
    :param lacks_dead_letters: whether it certainly has no dead-letter DAG, and could have one.
    :param task_id: its task; "" for an asset watcher.
    :param retries: of the task; None for an asset watcher.
    :param pool: of the task; None for an asset watcher.
    :param depends_on_past: whether the task waits until it succeeded in the run before.
    :param pushes_xcom: whether the result of the task is stored as an XCom.
    """

    dag_id: str
    is_watcher: bool
    conn_id: str | None
    inbox: str | None
    targets: tuple[str, ...] = ()
    dead_letter_dag_id: str | None = None
    lacks_dead_letters: bool = False
    task_id: str = ""
    retries: int | None = None
    pool: str | None = None
    depends_on_past: bool = False
    pushes_xcom: bool = True

    def may_be_of(self, connection_id: str, inbox_id: str, name: str | None) -> bool:
        """
        Whether this may use an inbox; False only if it certainly uses another one.

        :param connection_id: id of the Airflow connection.
        :param inbox_id: id of the inbox.
        :param name: name of the inbox; None if the caller does not know it.
        """
        if self.conn_id not in (None, connection_id):
            return False
        if self.inbox is None or (name is None and not is_id(self.inbox)):
            return True
        return self.inbox in (inbox_id, name)


def inbox_uses(session: Session) -> Iterator[InboxUse]:
    """All uses of inboxes, in the newest version of each DAG."""
    for dag_id, dag in airflow_internals.serialized_dags(session):
        yield from _uses_of(dag_id, dag)


def _uses_of(dag_id: str, dag: Mapping[str, Any]) -> Iterator[InboxUse]:
    default_args = _unwrapped(dag.get("default_args") or {})
    for task in dag.get("tasks", ()):
        fields = _unwrapped(task)
        templated = set(fields.get("template_fields", ()))
        if templated >= DISPATCHER_FIELDS or templated >= BATCH_TASK_FIELDS:
            is_mapped = fields.get("_is_mapped")
            arguments = _shared_arguments(fields, default_args) if is_mapped else fields
            use = _use_of_task(dag_id, str(fields.get("task_id")), arguments)
            # What the expansion of a mapped task may give is None.
            is_open = is_mapped and "dead_letter_dag_id" in arguments
            starts_runs = arguments.get("trigger_dag_id") is not None or templated >= BATCH_TASK_FIELDS
            is_without = starts_runs and not is_open and arguments.get("dead_letter_dag_id") is None
            yield replace(use, lacks_dead_letters=is_without)
    for watcher in _watchers(dag.get("timetable")):
        arguments = _unwrapped(watcher["trigger"].get("kwargs") or {})
        conn_id = _literal(arguments.get("workflow_conn_id", DEFAULT_CONN_ID))
        yield InboxUse(dag_id, True, conn_id, _inbox_of(arguments))


def _shared_arguments(fields: Mapping[str, Any], default_args: Mapping[str, Any]) -> dict[str, Any]:
    """
    The arguments that all expansions of a mapped task share; one that the expansion may give is None.

    :param default_args: of the DAG. Those of a task group are not serialized, so they are ignored.
    """
    partial_kwargs = _unwrapped(fields.get("partial_kwargs") or {})
    # ``@task.workflow_inbox`` has none: only arguments of its function are expanded.
    expansion = (fields.get("expand_input") or {"value": []})["value"]
    values = expansion if isinstance(expansion, list) else [expansion]
    expanded = set(fields["template_fields"])
    if all(isinstance(value, Mapping) and value.get("__type") == "dict" for value in values):
        expanded.intersection_update(name for value in values for name in value["__var"])
    elif fields.get("_disallow_kwargs_override", True):
        # An XCom gives any arguments, but with ``strict`` none that ``partial()`` has.
        expanded.difference_update(partial_kwargs)
    return {**default_args, **partial_kwargs, **dict.fromkeys(expanded)}


def _use_of_task(dag_id: str, task_id: str, arguments: Mapping[str, Any]) -> InboxUse:
    routes = _unwrapped(arguments.get("trigger_dag_id"))
    targets = [routes] if isinstance(routes, str) else list(routes or ())
    return InboxUse(
        dag_id,
        False,
        _literal(arguments.get("workflow_conn_id", DEFAULT_CONN_ID)),
        _inbox_of(arguments),
        tuple(target for target in targets if _literal(target)),
        _literal(arguments.get("dead_letter_dag_id")),
        task_id=task_id,
        # Serialized DAGs lack arguments that have the default.
        retries=arguments.get("retries", airflow_internals.default_retries()),
        pool=str(arguments.get("pool", airflow_internals.DEFAULT_POOL)),
        depends_on_past=bool(arguments.get("depends_on_past")),
        pushes_xcom=bool(arguments.get("do_xcom_push", True)),
    )


def _watchers(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, list):
        for item in value:
            yield from _watchers(item)
    elif isinstance(value, Mapping):
        trigger = value.get("trigger")
        if isinstance(trigger, Mapping) and str(trigger.get("classpath", "")).startswith(TRIGGERS_PREFIX):
            yield value
        for item in value.values():
            yield from _watchers(item)


def _unwrapped(value: Any) -> Any:
    """A value without the type that Airflow may have stored with it: ``{"__type": ..., "__var": ...}``."""
    return value["__var"] if isinstance(value, Mapping) and "__var" in value else value


def _inbox_of(arguments: Mapping[str, Any]) -> str | None:
    """The id in lower case, as the service writes it, or the name; None if known only at run time."""
    inbox = _literal(arguments.get("inbox"))
    return inbox.lower() if inbox and is_id(inbox) else inbox


def _literal(value: Any) -> str | None:
    """The value if it is a string without a template, so that it is known before run time; else None."""
    return value if isinstance(value, str) and "{{" not in value and "{%" not in value else None


def dead_letter_dags(
    uses: Iterable[InboxUse], connection_id: str, inbox_id: str, name: str | None = None
) -> set[str]:
    """
    The DAGs whose dead letters are trusted for an inbox: those that a deployed listener of the inbox names.

    The dead letters of other DAGs are not: any author of a DAG can start a run that looks like a dead letter,
    and its replay would start a target.

    - A ``dead_letter_dag_id`` that is known only at run time trusts no DAG.
    - A listener whose inbox or connection is known only at run time may be one of this inbox, so its DAG is
      trusted.
    - If the connection belongs to a team, only listeners of that team count.

    :param name: name of the inbox; None if it is unknown: then any listener that names its inbox counts.
    """
    team = airflow_internals.team_of_connection(connection_id)
    return {
        use.dead_letter_dag_id
        for use in uses
        if use.dead_letter_dag_id is not None
        and use.may_be_of(connection_id, inbox_id, name)
        and (team is None or airflow_internals.team_of_dag(use.dag_id) == team)
    }
