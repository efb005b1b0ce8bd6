"""
The uses of Airflow beyond its public API, and the differences between its versions 3.2 to 3.4.

``cli/common.py`` and ``cli/output.py`` have one more each, as they need it before Airflow is loaded.

Each function wraps one undocumented name or operation of Airflow; its docstring says what would replace it.

This module imports only ``airflow`` when it is loaded, as DAG files load it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from airflow import __version__

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    # The type of a function with ``@task``; a decorator of a provider returns it.
    from airflow.sdk.bases.decorator import Task as Task
    from sqlalchemy.orm import Session

PARENT_TRACE = "airflow/dagrun_parent_trace_context"
"""Entry of a conf: the trace context, in W3C's form, that the run becomes a part of (Airflow 3.4)."""
NOTE_PREFIX = "Message `"
"""The beginning of the note of each run that is started for a message: the id follows, as code."""


DEFAULT_POOL = "default_pool"
"""The pool of a task that names none."""
MAX_NOTE_LENGTH = 1000
"""Characters of the note of a run. PostgreSQL rejects the run of a longer one."""

SERIALIZATION_KEYS = frozenset(
    {"__cache__", "__classname__", "__data__", "__id__", "__source", "__type", "__var", "__version__"}
)
"""See ``reserved_keys``."""

# Versions


def airflow_release() -> tuple[int, int]:
    """Major and minor version of the installed Airflow."""
    major, minor = re.findall(r"\d+", __version__)[:2]
    return int(major), int(minor)


def reserved_keys() -> frozenset[str]:
    """
    Keys of Airflow's serialization, which the conf of a run must not contain at any depth.

    Since 3.4 the API server rejects such a conf with status 422. Its set is private to the server, and a
    worker starts the run, so it is repeated here; a test compares both.
    """
    return SERIALIZATION_KEYS if airflow_release() >= (3, 4) else frozenset()


def needs(feature: str, fix: str, release: tuple[int, int] = (3, 3)) -> Exception:
    """
    The error for a feature that requires a newer Airflow.

    :param fix: what to use instead.
    :param release: major and minor version of the first Airflow that has it.
    """
    from airflow.exceptions import AirflowOptionalProviderFeatureException

    return AirflowOptionalProviderFeatureException(
        f"{feature} needs Airflow {release[0]}.{release[1]} or later, and this is {__version__}; {fix}."
    )


def has_teams() -> bool:
    """Whether Airflow separates its users, DAGs and connections by teams (``[core] multi_team``)."""
    from airflow.configuration import conf

    return bool(conf.getboolean("core", "multi_team", fallback=False))


def default_retries() -> int:
    """The retries of a task that names none."""
    from airflow.configuration import conf

    return int(conf.getint("core", "default_task_retries", fallback=0))


# The supervisor of a task or a triggerer


def variables() -> Any:
    """
    Airflow's ``Variable``: that of the SDK in a task or a triggerer, which access Airflow only through their
    supervisor, and that of the metadata database in other processes, where the SDK's cannot write.

    A ``Variable`` of the SDK that can write everywhere would replace it.
    """
    if hasattr(sys.modules.get("airflow.sdk.execution_time.task_runner"), "SUPERVISOR_COMMS"):
        from airflow.sdk import Variable

        return Variable
    from airflow.models.variable import Variable as StoredVariable

    return StoredVariable


def lineage_of(ti: Any) -> dict[str, Any]:
    """
    The entry in the conf of a run by which OpenLineage names its parent, the task that starts it.

    Empty without the OpenLineage provider. ``TriggerDagRunOperator`` uses it too; it has no public name.
    """
    from airflow.providers.standard.utils.openlineage import (
        safe_inject_openlineage_properties_into_dagrun_conf,
    )

    return safe_inject_openlineage_properties_into_dagrun_conf({}, ti) or {}


def trigger_dag_run(dag_id: str, run_id: str, conf: dict[str, Any], note: str | None) -> str | None:
    """
    Request a DAG run from the supervisor, as ``TriggerDagRunOperator`` does; it is stored when this returns.

    A public function of the SDK that starts several runs from one task would replace it.

    :return: None, or the name of Airflow's ``ErrorType``, such as ``DAGRUN_ALREADY_EXISTS``.
    :raises Exception: the request was rejected or failed (see ``dispatch/runs.py``).
    """
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import ErrorResponse, TriggerDagRun

    note = note[:MAX_NOTE_LENGTH] if note else None
    order = TriggerDagRun(dag_id=dag_id, run_id=run_id, conf=conf, note=note)
    answer = task_runner.SUPERVISOR_COMMS.send(order)
    return str(answer.error.value) if isinstance(answer, ErrorResponse) else None


def stored_dag_run(dag_id: str, run_id: str) -> Any:
    """
    An existing DAG run as the supervisor knows it, with ``conf``, ``note`` and ``triggering_user_name``.

    A function of the SDK would replace it.

    :raises Exception: there is no such run, or the request failed (see ``dispatch/runs.py``).
    """
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import GetDagRun

    return task_runner.SUPERVISOR_COMMS.send(GetDagRun(dag_id=dag_id, run_id=run_id))


def is_started_by_hand(run: Any) -> bool:
    """
    Whether a user, and no task, started a run that :func:`stored_dag_run` returned.

    Since 3.3 a run that a task starts has a type of its own. Before, it may be manual too, in the name of the
    user who started the run of the task (3.2.2): it is known by its note, which a user can imitate. A field
    ``triggered_by`` would replace it.
    """
    if run.triggering_user_name is None or run.run_type != "manual":
        return False
    return airflow_release() >= (3, 3) or not str(run.note).startswith(NOTE_PREFIX)


# The Task SDK


def http_status_error() -> type[Exception]:
    """
    What the SDK's HTTP client raises for an error, as tasks get it in ``dag.test()``: of httpx, or of httpx2.

    A public exception of the SDK would replace it.
    """
    from airflow.sdk.api.client import ServerResponseError

    base: type[Exception] = ServerResponseError.__bases__[0]
    return base


@cache
def stats() -> Any:
    """
    Airflow's ``Stats``, initialized.

    In a triggerer only the import of ``airflow.sdk.serde`` initializes it, and Airflow 3.2 imports that late
    or never. A ``Stats`` that initializes itself would replace this function.
    """
    import airflow.sdk.serde  # noqa: F401
    from airflow.providers.common.compat.sdk import Stats

    return Stats


def dags_of_parsed_file() -> list[Any]:
    """
    The DAGs that the DAG file has made so far while Airflow parses it; none in another process.

    A public registry of the DAGs of a file would replace it.
    """
    from airflow.sdk.definitions._internal.contextmanager import DagContext

    return [dag for dag, _ in DagContext.autoregistered_dags]


# The command line


def console(width: int) -> Any:
    """The console of Airflow's commands, without markup; rich's ``Console`` would replace it."""
    from airflow.cli.simple_table import AirflowConsole

    made = AirflowConsole(markup=False, emoji=False, highlight=False)
    made.width = width
    return made


def run_quietly(command: Callable[[Namespace], None], args: Namespace, *, verbose: bool) -> None:
    """
    Run a command as Airflow runs its own: without log lines and Python warnings.

    Airflow logs to stdout, where a script expects a result. An option of ``ActionCommand`` would replace it.

    :param verbose: show them.
    """
    from airflow.utils.cli import suppress_logs_and_warning

    args.verbose = verbose
    suppress_logs_and_warning(command)(args)


# The metadata database, which commands use as they have no supervisor.
# Airflow's REST API, for which a command needs credentials, would replace it.


def database_session() -> AbstractContextManager[Session]:
    """A session of the metadata database; it is committed when the context ends."""
    from airflow.utils.session import create_session

    return create_session()


def deployed_dags(dag_ids: Collection[str], session: Session) -> dict[str, Any]:
    """
    The rows of those of these DAGs that a DAG file contains, by their ids.

    A row has ``is_paused``, ``has_import_errors``, and since 3.3 ``allowed_run_types``.
    """
    from airflow.models.dag import DagModel
    from sqlalchemy import select

    names = ("dag_id", "is_paused", "has_import_errors", "allowed_run_types")
    columns = [getattr(DagModel, name) for name in names if hasattr(DagModel, name)]
    rows = session.execute(select(*columns).where(DagModel.dag_id.in_(dag_ids), ~DagModel.is_stale))
    return {row.dag_id: row for row in rows}


def serialized_dags(session: Session) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """
    The id and the latest serialized version of each DAG of a DAG file that has a ``workflow_conn_id``.

    The database filters them, except compressed ones.
    """
    from airflow.models.dag import DagModel
    from airflow.models.serialized_dag import SerializedDagModel
    from sqlalchemy import Text, cast, or_, select

    stored = SerializedDagModel.__table__.c
    mentions = or_(cast(stored.data, Text).like("%workflow_conn_id%"), stored.data_compressed.is_not(None))
    dag_ids: Iterable[str] = session.scalars(
        select(stored.dag_id)
        .join(DagModel, DagModel.dag_id == stored.dag_id)
        .where(~DagModel.is_stale, mentions)
        .distinct()
        .order_by(stored.dag_id)
    ).all()
    for dag_id in dag_ids:
        newest = session.scalar(SerializedDagModel.latest_item_select_object(dag_id))
        if newest is not None and newest.data:
            yield dag_id, newest.data["dag"]


def team_of_dag(dag_id: str) -> str | None:
    """The team of a DAG; None without one, and where Airflow has no teams."""
    from airflow.models.dag import DagModel

    return DagModel.get_team_name(dag_id) if has_teams() else None


def team_of_connection(connection_id: str) -> str | None:
    """The team of a connection of the database; None without one, and where Airflow has no teams."""
    from airflow.models.connection import Connection

    return Connection.get_team_name(connection_id) if has_teams() else None


def triggerer_heartbeats() -> list[Any]:
    """The latest heartbeat (a timezone-aware time) of each triggerer that has not ended."""
    from airflow.jobs.job import Job
    from sqlalchemy import select

    running = (Job.job_type == "TriggererJob", Job.state == "running")
    with database_session() as session:
        return [beat for beat in session.scalars(select(Job.latest_heartbeat).where(*running)) if beat]


def files_with_import_errors() -> list[str]:
    """The DAG files that Airflow cannot import."""
    from airflow.models.errors import ParseImportError
    from sqlalchemy import select

    with database_session() as session:
        return sorted(filter(None, session.scalars(select(ParseImportError.filename))))


def pool_names(session: Session) -> set[str]:
    """The pools of Airflow."""
    from airflow.models.pool import Pool
    from sqlalchemy import select

    return set(session.scalars(select(Pool.pool)))


def count_triggers(path: str) -> int:
    """Number of stored triggers whose import path starts with ``path``."""
    from airflow.models.trigger import Trigger
    from sqlalchemy import func, select

    count = select(func.count()).select_from(Trigger).where(Trigger.classpath.startswith(path))
    with database_session() as session:
        return int(session.scalar(count) or 0)


def dag_run_model() -> Any:
    """
    The SQLAlchemy model of DAG runs, for the queries of ``database/``.

    Filters of Airflow's REST API for the beginning of a run's id and entries of its conf would replace it.
    """
    from airflow.models.dagrun import DagRun

    return DagRun


def task_instance_model() -> Any:
    """
    The SQLAlchemy model of task instances, for the queries of ``database/``.

    A request of Airflow's REST API for the failed tasks of many runs would replace it.
    """
    from airflow.models.taskinstance import TaskInstance

    return TaskInstance


def create_dag_run(
    dag_id: str,
    run_id: str,
    conf: dict[str, Any],
    note: str | None,
    *,
    triggered_by: str,
    user: str | None,
) -> None:
    """
    Create a DAG run as ``airflow dags trigger`` does; after a database error it is retried.

    :param triggered_by: name of Airflow's ``DagRunTriggeredByType``.
    :param user: name of the user who starts it, if any.
    :raises DagRunAlreadyExists: the run exists; a retry may find the one of the first attempt.
    :raises DagNotFound: there is no such DAG.
    """
    from airflow.api.common.trigger_dag import trigger_dag
    from airflow.utils.retries import run_with_db_retries
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    # By its type a task knows such a run from one that the user made up (``is_started_by_hand``).
    is_of_page = triggered_by == "OPERATOR" and airflow_release() >= (3, 3)
    for attempt in run_with_db_retries():
        with attempt:
            trigger_dag(
                dag_id,
                run_type=DagRunType.OPERATOR_TRIGGERED if is_of_page else DagRunType.MANUAL,
                triggered_by=DagRunTriggeredByType[triggered_by],
                triggering_user_name=user,
                run_id=run_id,
                conf=conf,
                note=note[:MAX_NOTE_LENGTH] if note else None,
            )
