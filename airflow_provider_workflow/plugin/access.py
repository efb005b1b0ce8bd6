"""What one user may read, as Airflow's auth manager decides it, and the addresses of it in Airflow's UI."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from airflow_provider_workflow import clock
from airflow_provider_workflow.database.dag_runs import FoundRun
from airflow_provider_workflow.plugin import airflow_server
from airflow_provider_workflow.plugin.views import text


class Reader:
    """
    A user, for one request, which asks each question once.

    :param user: as the auth manager knows it.
    """

    def __init__(self, user: Any) -> None:
        self.user = user
        self._dags: dict[str, bool] = {}
        self._runs: dict[str, bool] = {}

    def may_read(self, dag_id: str) -> bool:
        """Whether the user may read a DAG."""
        if dag_id not in self._dags:
            self._dags[dag_id] = airflow_server.may_read_dag(self.user, dag_id)
        return self._dags[dag_id]

    def may_read_runs(self, dag_id: str) -> bool:
        """Whether the user may read the runs of a DAG."""
        if dag_id not in self._runs:
            self._runs[dag_id] = airflow_server.may_read_runs(self.user, dag_id)
        return self._runs[dag_id]

    def run(self, run_id: str, found: list[FoundRun]) -> dict[str, Any] | None:
        """The first of the runs with an id that the user may read, as JSON; None if there is none."""
        for each in found:
            if self.may_read_runs(each.dag_id):
                return run_of(each.dag_id, run_id, each.state)
        return None


def run_of(dag_id: str, run_id: str, state: str) -> dict[str, Any]:
    """A run as JSON."""
    return {"dag_id": dag_id, "run_id": run_id, "state": state, "url": run_url(dag_id, run_id)}


def dag_url(dag_id: str) -> str:
    """Path of a DAG in Airflow's UI, below the path of its base URL."""
    return f"/dags/{quote(dag_id, safe='')}"


def run_url(dag_id: str, run_id: str) -> str:
    """Path of a DAG run in Airflow's UI, below the path of its base URL."""
    return f"{dag_url(dag_id)}/runs/{quote(run_id, safe='')}"


def connections(reader: Reader, conn_type: str, default: str) -> dict[str, Any]:
    """The connections of a type that a user may read, and the one to show first."""
    found = airflow_server.connections_of_type(conn_type)
    readable = {
        each: told for each, told in found.items() if airflow_server.may_use_connection(reader.user, each)
    }
    first = default if default in readable else next(iter(readable), default)
    listed = [{"connection_id": each, "description": text(told)} for each, told in readable.items()]
    return {"connections": listed, "default": first, "fetched_at": clock.iso(clock.now())}
