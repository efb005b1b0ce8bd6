"""
Deployed DAGs and DAG runs in Airflow's metadata database, for the command line.

Outside a task there is no supervisor. Deployed DAGs are read from the serialized DAGs in the database. Runs
are started with the function that ``airflow dags trigger`` calls, after the checks that Airflow's API makes
for a task. Both are internal to Airflow, and wrapped in ``airflow_internals.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow import airflow_internals
from airflow_provider_workflow.cli.running import Exit
from airflow_provider_workflow.dispatch.rejections import (
    RunRejected,
    ServerFault,
    TargetError,
    reason_without_values,
)
from airflow_provider_workflow.dispatch.runs import Start, check_conf

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

TRIGGERS = "airflow_provider_workflow.triggers."
"""Prefix of the import paths of this provider's triggers."""
DISPATCHING = {"inbox", "trigger_dag_id", "workflow_conn_id"}
"""Template fields by which this provider's sensor and dispatch operator, and subclasses, are recognised."""
DEFAULT_CONN_ID = "workflow_default"


@dataclass(frozen=True)
class DeployedDag:
    """
    The state of a DAG in the database.

    :param missing: there is no such DAG, or no DAG file contains it any more.
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
    :param what: kind and name of the task or watcher, for a message.
    :param conn_id: its connection; None if known only at run time.
    :param inbox: id or name; None if known only at run time.
    :param targets: the target DAGs that are known before run time.
    """

    dag_id: str
    what: str
    conn_id: str | None
    inbox: str | None
    targets: tuple[str, ...] = ()


def deployed(dag_id: str, session: Session) -> DeployedDag:
    """Read the state of a DAG, which need not exist."""
    dag = airflow_internals.dag_row(dag_id, session)
    if dag is None:
        return DeployedDag(dag_id, missing=True)
    return DeployedDag(dag_id, False, bool(dag.is_paused), bool(dag.has_import_errors))


def inbox_uses(session: Session) -> Iterator[InboxUse]:
    """All uses of inboxes, in the newest version of each DAG."""
    for dag_id, dag in airflow_internals.serialized_dags("workflow_conn_id", session):
        yield from _uses_of(dag_id, dag)


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
    Make the use of a task. Of a mapped task only the arguments of ``partial()`` are known.

    Airflow omits the connection from these if it is the default one.
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
    """The watchers with triggers of this provider, among the assets of a timetable."""
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
    """Unwrap a value that Airflow serialized together with its type."""
    return value["__var"] if isinstance(value, Mapping) and "__var" in value else value


def _known(value: Any) -> str | None:
    """The value if it is a string without a template, else None."""
    return value if isinstance(value, str) and "{{" not in value and "{%" not in value else None


class MissingDagError(TargetError):
    """The target DAG does not exist."""

    exit_code = Exit.NOT_FOUND

    def __init__(self, dag_id: str) -> None:
        super().__init__(
            f"The DAG {dag_id!r} was not found. Deploy it, or correct --trigger-dag-id; no message is lost."
        )


class DatabaseRuns:
    """DAG runs in the metadata database (see ``runs.Runs``)."""

    alongside = False
    """False, as Ctrl-C must interrupt all of a command, and would not reach another thread."""

    def check_target(self, dag_id: str, *, thorough: bool = False) -> None:  # noqa: ARG002 always thorough
        """See ``Runs.check_target``. The database shows every problem, except params that reject the conf."""
        with _database_errors(), airflow_internals.database_session() as session:
            dag = airflow_internals.dag_row(dag_id, session)
            if dag is None or not airflow_internals.is_serialized(dag_id, session):
                raise MissingDagError(dag_id)
            if dag.has_import_errors:
                raise TargetError(f"The DAG {dag_id!r} has import errors. Correct them; no message is lost.")
            allowed = getattr(dag, "allowed_run_types", None)  # since Airflow 3.3
            if allowed is not None and "manual" not in allowed:
                raise TargetError(f"The DAG {dag_id!r} does not allow manual runs. No message is lost.")

    def start(self, dag_id: str, run_id: str, conf: dict[str, Any], note: str | None = None) -> Start:
        """See ``Runs.start``."""
        check_conf(conf)
        from airflow.exceptions import DagNotFound, DagRunAlreadyExists, ParamValidationError
        from sqlalchemy.exc import SQLAlchemyError

        try:
            airflow_internals.create_dag_run(dag_id, run_id, conf, note)
        except DagRunAlreadyExists:
            return Start.EXISTING
        except DagNotFound:
            raise MissingDagError(dag_id) from None
        except SQLAlchemyError as error:
            raise _error_of(error) from None
        except (ValueError, TypeError, OverflowError, RecursionError, ParamValidationError) as error:
            raise RunRejected(f"{type(error).__name__}: {reason_without_values(str(error))}") from None
        return Start.STARTED

    def exists(self, dag_id: str, run_id: str) -> bool:
        """See ``Runs.exists``."""
        with _database_errors():
            return airflow_internals.count_dag_runs(dag_id, run_id=[run_id]) > 0

    def unfinished(self, dag_id: str) -> int:
        """See ``Runs.unfinished``."""
        with _database_errors():
            return airflow_internals.count_dag_runs(dag_id, state=["queued", "running"])


@contextmanager
def _database_errors() -> Iterator[None]:
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except SQLAlchemyError as error:
        raise _unreachable(error) from None


def _error_of(error: Exception) -> RunRejected | TargetError:
    """Blame a database error on the message or the target; without its text, which quotes values."""
    from sqlalchemy.exc import DataError, DBAPIError, StatementError

    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return _unreachable(error)
    if isinstance(error, DataError) or (
        isinstance(error, StatementError) and not isinstance(error, DBAPIError)
    ):
        return RunRejected(f"the database cannot hold its payload: {type(error.orig).__name__}")
    return ServerFault(f"the database failed at this run: {type(error).__name__}")


def _unreachable(error: Exception) -> TargetError:
    return TargetError(
        "Airflow's metadata database is unreachable, or not migrated:"
        f" {type(error).__name__}. No message is lost."
    )
