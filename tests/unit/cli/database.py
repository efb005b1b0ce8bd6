"""DAGs and runs in a metadata database, put there and looked at as Airflow does it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from airflow.api.common.delete_dag import delete_dag
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.dagrun import DagRun
from airflow.models.serialized_dag import SerializedDagModel
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import LazyDeserializedDAG
from airflow.utils.session import create_session
from sqlalchemy import select

try:
    from airflow.serialization.definitions.dag import SerializedDAG
except ImportError:  # Airflow 3.1
    from airflow.serialization.serialized_objects import SerializedDAG

BUNDLE = "tests"


class Database:
    """Airflow's metadata database, for one test."""

    def add_dag(self, dag_id: str, *, params: dict[str, Any] | None = None, **columns: Any) -> None:
        """
        Add a DAG as the DAG processor does.

        :param columns: of its row, afterwards.
        """
        dag = DAG(dag_id, schedule=None, start_date=datetime(2025, 1, 1), params=params)
        lazy = LazyDeserializedDAG.from_dag(dag)
        with create_session() as session:
            if session.get(DagBundleModel, BUNDLE) is None:
                session.add(DagBundleModel(name=BUNDLE))
                session.flush()
            SerializedDAG.bulk_write_to_db(BUNDLE, None, [lazy], session=session)
            session.flush()
            SerializedDagModel.write_dag(lazy, bundle_name=BUNDLE, session=session)
        self.change(dag_id, **columns)

    def change(self, dag_id: str, **columns: Any) -> None:
        """Change the row of a DAG."""
        with create_session() as session:
            dag = session.get(DagModel, dag_id)
            for name, value in columns.items():
                setattr(dag, name, value)

    def delete_dag(self, dag_id: str) -> None:
        """Delete a DAG with its runs, as Airflow's page does."""
        delete_dag(dag_id)

    def runs(self, dag_id: str) -> dict[str, dict[str, Any]]:
        """The conf of each run of a DAG, by run id."""
        with create_session() as session:
            found = session.scalars(select(DagRun).where(DagRun.dag_id == dag_id)).all()
            return {run.run_id: run.conf for run in found}

    def end_runs(self, dag_id: str) -> None:
        """Let all runs of a DAG succeed."""
        with create_session() as session:
            for run in session.scalars(select(DagRun).where(DagRun.dag_id == dag_id)):
                run.state = "success"
