"""
All uses of Airflow beyond its public API, and the differences between versions of Airflow.

Each function wraps one undocumented name or operation of Airflow. Its docstring states why it is needed, what
would replace it, and since which version it exists if the oldest supported one (3.2) lacks it. A test checks
that only two modules of ``plugin/`` import such names too. Documented modules (``airflow.sdk``,
``airflow.triggers``, ``airflow.configuration``, ``airflow.exceptions``, ``airflow.cli.cli_config``, the
``common.compat`` provider) are imported where they are needed.

This module imports only ``airflow`` when it is loaded, as DAG files load it.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from airflow import __version__

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from sqlalchemy.orm import Session

LONGEST_NOTE = 1000
"""Characters of the note of a run, which is truncated to it. PostgreSQL rejects the run of a longer one."""

SERIALIZATION_KEYS = frozenset(
    {"__cache__", "__classname__", "__data__", "__id__", "__source", "__type", "__var", "__version__"}
)
"""See ``reserved_keys``."""

# Versions


def airflow_version() -> str:
    """Complete version string of the installed Airflow."""
    return __version__


def airflow_release() -> tuple[int, int]:
    """Major and minor version of the installed Airflow."""
    major, minor = re.findall(r"\d+", __version__)[:2]
    return int(major), int(minor)


def reserved_keys() -> frozenset[str]:
    """
    Keys of Airflow's serialization, which the conf of a run must not contain at any depth.

    Since 3.4 the API server rejects such a conf with status 422; before, it stores it unchanged. The set is
    private to the server, and a run is started by a worker, so it is repeated here; a test compares both.
    """
    return SERIALIZATION_KEYS if airflow_release() >= (3, 4) else frozenset()


def needs(feature: str, fix: str, release: tuple[int, int] = (3, 3)) -> Exception:
    """
    The error for a feature that requires a newer Airflow.

    :param feature: the requested feature.
    :param fix: what to use instead.
    :param release: major and minor version of the first Airflow that has it.
    """
    from airflow.exceptions import AirflowOptionalProviderFeatureException

    return AirflowOptionalProviderFeatureException(
        f"{feature} needs Airflow {release[0]}.{release[1]} or later, and this is {__version__}; {fix}."
    )


# The supervisor of a task or a triggerer


def is_supervised() -> bool:
    """
    Whether this process is a task or a triggerer, which access Airflow only through their supervisor.

    The SDK's ``Variable`` cannot write in other processes, and there is no public way to detect
    them. A ``Variable`` of the SDK that works in every process would replace it.
    """
    return hasattr(sys.modules.get("airflow.sdk.execution_time.task_runner"), "SUPERVISOR_COMMS")


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

    The operator can start only one run per task. A public function of the SDK that starts several runs from
    one task would replace it.

    :return: None, or the name of Airflow's ``ErrorType``, such as ``DAGRUN_ALREADY_EXISTS``.
    :raises Exception: the request was rejected or failed (see ``dispatch/runs.py``).
    """
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import ErrorResponse, TriggerDagRun

    note = note[:LONGEST_NOTE] if note else None
    order = TriggerDagRun(dag_id=dag_id, run_id=run_id, conf=conf, note=note)
    answer = task_runner.SUPERVISOR_COMMS.send(order)
    return str(answer.error.value) if isinstance(answer, ErrorResponse) else None


def stored_dag_run(dag_id: str, run_id: str) -> Any:
    """
    An existing DAG run as the supervisor knows it, with ``conf`` and ``triggering_user_name``.

    Since 3.2. The SDK's own ``get_dag_run`` of a task would replace it; there is none yet.

    :raises Exception: there is no such run, or the request failed (see ``dispatch/runs.py``).
    """
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import GetDagRun

    return task_runner.SUPERVISOR_COMMS.send(GetDagRun(dag_id=dag_id, run_id=run_id))


def is_started_by_hand(run: Any) -> bool:
    """
    Whether a user, and no task, started a run.

    :param run: as :func:`stored_dag_run` returns it.

    Airflow gives a run that a task starts the name of the user who started the run of that task (from 3.2.2
    on). Since 3.3 it has a type of its own. Before, nothing tells the two apart, and a message must not get a
    second run: so no run counts as started by hand. A field ``triggered_by`` would replace it.
    """
    is_manual = run.triggering_user_name is not None and run.run_type == "manual"
    return is_manual and airflow_release() >= (3, 3)


# The Task SDK


def http_status_error() -> type[Exception]:
    """
    The exception of the SDK's HTTP client for an answer that is an error; a task gets it in ``dag.test()``.

    Of httpx before 3.4 and of httpx2 from then on. A public exception of the SDK would replace it.
    """
    from airflow.sdk.api.client import ServerResponseError

    base: type[Exception] = ServerResponseError.__bases__[0]
    return base


MOST_SECRETS = 6
"""
Secrets of a connection that stay masked in a triggerer: access token, refresh token and the Variable that
holds both, of the latest renewal and of the one before. Older ones are no longer valid.
"""
masked: dict[str, list[str]] = {}
"""For each connection id, its secrets that are masked in this triggerer."""
_masking = threading.Lock()


def mask_in_triggerer(secret: str, connection_id: str) -> None:
    """
    Mask a secret in the logs of this process, in place of the oldest secret of its connection.

    The public ``airflow.sdk.log.mask_secret`` also informs the supervisor. That call blocks, and
    before 3.3, made from a thread, it breaks the connection of a triggerer to its supervisor. It also never
    removes a secret from a regular expression that it compiles again for each new one, while a triggerer runs
    for months. A public way to remove a secret would replace this function.
    """
    from airflow.sdk._shared.secrets_masker import mask_secret

    with _masking:
        kept = [*(each for each in masked.get(connection_id, ()) if each != secret), secret]
        masked[connection_id] = kept[-MOST_SECRETS:]
        for old in kept[:-MOST_SECRETS]:
            _unmask(old)
    mask_secret(secret)


def _unmask(secret: str) -> None:
    """Remove a secret from the masker; in an Airflow with another masker it stays masked."""
    with suppress(ImportError, AttributeError):
        from airflow.sdk._shared.secrets_masker import _secrets_masker

        masker = _secrets_masker()
        for each in masker._adaptations(secret):
            masker.patterns.discard(re.escape(each))


@cache
def stats() -> Any:
    """
    Airflow's ``Stats``, initialized.

    ``Stats`` is public. In a triggerer only the import of ``airflow.sdk.serde`` initializes that of the Task
    SDK, and Airflow 3.2 imports it late or never. A ``Stats`` that initializes itself would replace this
    function.
    """
    import airflow.sdk.serde  # noqa: F401
    from airflow.providers.common.compat.sdk import Stats

    return Stats


# The command line


def console() -> Any:
    """
    The console of Airflow's commands, without markup.

    It gives our commands the format of Airflow's own. rich's ``Console`` would replace it.
    """
    from airflow.cli.simple_table import AirflowConsole

    return AirflowConsole(markup=False, emoji=False, highlight=False)


def table() -> Any:
    """An empty table in the format of Airflow's commands; see :func:`console`."""
    from airflow.cli.simple_table import SimpleTable

    return SimpleTable(show_header=True)


# The metadata database, which commands use as they have no supervisor.
# Airflow's REST API would replace it, but a command would need its URL and credentials.


def database_session() -> AbstractContextManager[Session]:
    """A session of the metadata database; it is committed when the context ends."""
    from airflow.utils.session import create_session

    return create_session()


def check_database() -> None:
    """
    Check the metadata database by reading a row.

    :raises Exception: any exception of the database driver; its message may contain the database URL.
    """
    from airflow.models.variable import Variable
    from sqlalchemy import select

    with database_session() as session:
        session.scalar(select(Variable.key).limit(1))


def stored_variable(name: str) -> str | None:
    """The value of an Airflow Variable, for processes other than tasks and triggerers; None if missing."""
    from airflow.models.variable import Variable

    value: str | None = Variable.get(name, default_var=None)
    return value


def store_variable(name: str, value: str, description: str) -> None:
    """Set an Airflow Variable, in processes other than tasks and triggerers, where the SDK's cannot write."""
    from airflow.models.variable import Variable

    Variable.set(name, value, description=description)


def dag_row(dag_id: str, session: Session) -> Any:
    """
    The row of a DAG: ``is_paused``, ``has_import_errors``, ``max_active_runs``, and since 3.3
    ``allowed_run_types``.

    :return: None if there is no such row, or no DAG file contains the DAG any more.
    """
    from airflow.models.dag import DagModel

    dag = session.get(DagModel, dag_id)
    return None if dag is None or dag.is_stale else dag


def is_serialized(dag_id: str, session: Session) -> bool:
    """Whether a serialized version of a DAG is stored, from which runs can be created."""
    from airflow.models.dagbag import DBDagBag

    return DBDagBag().get_latest_version_of_dag(dag_id, session=session) is not None


def serialized_dags(word: str, session: Session) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """
    The id and the latest serialized version of each DAG that is in a DAG file.

    :param word: only DAGs that contain this string; compressed DAGs are not filtered. The database filters,
        as there may be thousands of DAGs, each with many versions.
    """
    from airflow.models.dag import DagModel
    from airflow.models.serialized_dag import SerializedDagModel
    from sqlalchemy import Text, cast, or_, select

    stored = SerializedDagModel.__table__.c
    mentions = or_(cast(stored.data, Text).like(f"%{word}%"), stored.data_compressed.is_not(None))
    dag_ids: Iterable[str] = session.scalars(
        select(stored.dag_id)
        .join(DagModel, DagModel.dag_id == stored.dag_id)
        .where(~DagModel.is_stale, mentions)
        .distinct()
        .order_by(stored.dag_id)
    ).all()
    for dag_id in dag_ids:
        dag = serialized_dag(dag_id, session)
        if dag is not None:
            yield dag_id, dag


def serialized_dag(dag_id: str, session: Session) -> Mapping[str, Any] | None:
    """The latest serialized version of a DAG; None if none is stored."""
    from airflow.models.serialized_dag import SerializedDagModel

    newest = session.scalar(SerializedDagModel.latest_item_select_object(dag_id))
    return newest.data["dag"] if newest is not None and newest.data else None


def heartbeats(process: str) -> list[tuple[Any, str, str]]:
    """Latest heartbeat (a timezone-aware time), state and machine of each triggerer (or scheduler)."""
    from airflow.jobs.job import Job
    from sqlalchemy import select

    columns = (Job.latest_heartbeat, Job.state, Job.hostname)
    with database_session() as session:
        rows = session.execute(select(*columns).where(Job.job_type == f"{process.capitalize()}Job"))
        return [(beat, str(state), str(host)) for beat, state, host in rows if beat is not None]


def count_triggers(path: str) -> int:
    """Number of stored triggers whose import path starts with ``path``."""
    from airflow.models.trigger import Trigger
    from sqlalchemy import func, select

    found = select(func.count()).select_from(Trigger).where(Trigger.classpath.startswith(path))
    with database_session() as session:
        return int(session.scalar(found) or 0)


def count_dag_runs(dag_id: str, **which: Iterable[str]) -> int:
    """
    Number of runs of a DAG.

    :param which: only runs whose ``run_id`` or ``state`` is one of these values.
    """
    from airflow.models.dagrun import DagRun
    from sqlalchemy import func, select

    conditions = [getattr(DagRun, column).in_(list(values)) for column, values in which.items()]
    runs = select(func.count()).select_from(DagRun).where(DagRun.dag_id == dag_id, *conditions)
    with database_session() as session:
        return int(session.scalar(runs) or 0)


def dag_run_model() -> Any:
    """
    The SQLAlchemy model of DAG runs, for the queries of ``database/dag_runs.py``.

    With the columns that are used there: ``id``, ``dag_id``, ``run_id``, ``state``, ``run_after``,
    ``triggered_by``, ``triggering_user_name``, and ``conf``, which is JSON. No function of Airflow finds runs
    by the beginning of their id and by entries of their conf, page by page; filters of its REST API for both
    would replace it.
    """
    from airflow.models.dagrun import DagRun

    return DagRun


def create_dag_run(
    dag_id: str,
    run_id: str,
    conf: dict[str, Any],
    note: str | None,
    *,
    triggered_by: str = "CLI",
    user: str | None = None,
) -> None:
    """
    Create a DAG run as ``airflow dags trigger`` does.

    After a database error it is retried. A retry raises ``DagRunAlreadyExists`` if the first attempt, or
    another process at the same time, has created the run.

    :param triggered_by: name of Airflow's ``DagRunTriggeredByType``.
    :param user: name of the user who starts it.
    :raises DagRunAlreadyExists: the run exists.
    :raises DagNotFound: there is no such DAG.
    """
    from airflow.api.common.trigger_dag import trigger_dag
    from airflow.utils.retries import run_with_db_retries
    from airflow.utils.types import DagRunTriggeredByType

    for attempt in run_with_db_retries():
        with attempt:
            trigger_dag(
                dag_id,
                triggered_by=DagRunTriggeredByType[triggered_by],
                triggering_user_name=user,
                run_id=run_id,
                conf=conf,
                note=note[:LONGEST_NOTE] if note else None,
            )
