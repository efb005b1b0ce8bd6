"""DAGs and runs in a metadata database, put there and looked at as Airflow does it."""

from __future__ import annotations

import json
import zlib
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.jobs.job import Job
from airflow.models.connection import Connection
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.dagrun import DagRun
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.taskinstance import TaskInstance
from airflow.sdk import DAG, BaseOperator
from airflow.serialization.definitions.dag import SerializedDAG
from airflow.serialization.serialized_objects import LazyDeserializedDAG
from airflow.utils.session import create_session
from sqlalchemy import null, select, text, update

from airflow_provider_workflow.airflow_internals import create_dag_run
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

BUNDLE = "tests"


def listening(dag_id: str, **arguments: Any) -> DAG:
    """A DAG with a sensor that has these arguments."""
    with DAG(dag_id, schedule=None, start_date=datetime(2025, 1, 1)) as dag:
        WorkflowInboxSensor(task_id="listen", **arguments)
    return dag


def listening_mapped(
    dag_id: str,
    expanded: list[dict[str, Any]] | None,
    *,
    default_args: dict[str, Any] | None = None,
    is_strict: bool = True,
    **arguments: Any,
) -> DAG:
    """
    A DAG with a mapped dispatch operator that has these arguments in ``partial()``.

    :param expanded: the other arguments of each mapped task; None if an XCom has them.
    :param default_args: of the DAG.
    :param is_strict: whether an argument of ``partial()`` cannot be replaced.
    """
    with DAG(dag_id, schedule=None, start_date=datetime(2025, 1, 1), default_args=default_args or {}) as dag:
        xcom = BaseOperator(task_id="list").output
        partial = WorkflowInboxDispatchOperator.partial(task_id="start", **arguments)
        partial.expand_kwargs(xcom if expanded is None else expanded, strict=is_strict)
    return dag


class Database:
    """Airflow's metadata database, for one test."""

    def add_dag(self, dag_id: str, *, params: dict[str, Any] | None = None, **columns: Any) -> None:
        """
        Add a DAG as the DAG processor does.

        :param columns: of its row, afterwards.
        """
        self.deploy(DAG(dag_id, schedule=None, start_date=datetime(2025, 1, 1), params=params), **columns)

    def deploy(self, dag: DAG, **columns: Any) -> None:
        """
        Store a DAG as the DAG processor does; once more is a new version of it.

        :param columns: of its row, afterwards; it is unpaused by default.
        """
        lazy = LazyDeserializedDAG.from_dag(dag)
        with create_session() as session:
            if session.get(DagBundleModel, BUNDLE) is None:
                session.add(DagBundleModel(name=BUNDLE))
                session.flush()
            SerializedDAG.bulk_write_to_db(BUNDLE, None, [lazy], session=session)
            session.flush()
            SerializedDagModel.write_dag(lazy, bundle_name=BUNDLE, session=session)
        self.change(dag.dag_id, **{"is_paused": False, **columns})

    def compress_dags(self) -> None:
        """Store all DAGs as ``[core] compress_serialized_dags`` does."""
        stored = SerializedDagModel.__table__
        with create_session() as session:
            for dag in session.scalars(select(SerializedDagModel)).all():
                compressed = zlib.compress(json.dumps(dag.data).encode())
                change = update(stored).where(stored.c.id == dag.id)
                session.execute(change.values(data=null(), data_compressed=compressed))

    def add_connection(self, connection: Connection) -> None:
        with create_session() as session:
            session.add(connection)

    def add_team(self, name: str) -> None:
        """Add a team."""
        with create_session() as session:
            session.execute(text("INSERT INTO team (name) VALUES (:name)"), {"name": name})

    def add_triggerer(self, *, seconds_ago: float = 1, state: str = "running") -> None:
        """Add a triggerer whose last heartbeat was that long ago."""
        beat = datetime.now(UTC) - timedelta(seconds=seconds_ago)
        with create_session() as session:
            job = Job(job_type="TriggererJob", state=state)
            session.add(job)
            session.flush()
            job.latest_heartbeat = beat

    def change(self, dag_id: str, **columns: Any) -> None:
        with create_session() as session:
            dag = session.get(DagModel, dag_id)
            for name, value in columns.items():
                setattr(dag, name, value)

    def runs(self, dag_id: str) -> dict[str, dict[str, Any]]:
        """The conf of each run of a DAG, by run id."""
        with create_session() as session:
            dag_runs = session.scalars(select(DagRun).where(DagRun.dag_id == dag_id)).all()
            return {run.run_id: run.conf for run in dag_runs}

    def add_run(self, dag_id: str, state: str, end: datetime) -> None:
        """Add a run that ended, and its tasks with it."""
        run_id = f"ended_{end:%H%M}"
        create_dag_run(dag_id, run_id, {}, None, triggered_by="CLI", user=None)
        with create_session() as session:
            run = session.scalars(
                select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)
            ).one()
            run.state, run.end_date = state, end
            for task in session.scalars(select(TaskInstance).where(TaskInstance.dag_id == dag_id)):
                if task.run_id == run_id:
                    task.state, task.end_date = state, end

    def set_states(self, dag_id: str, state: str) -> None:
        """Let all runs of a DAG be in this state."""
        with create_session() as session:
            for run in session.scalars(select(DagRun).where(DagRun.dag_id == dag_id)):
                run.state = state

    def end_runs(self, dag_id: str) -> None:
        """Let all runs of a DAG succeed."""
        self.set_states(dag_id, "success")
