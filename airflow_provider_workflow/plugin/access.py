"""
Who may do what on the page, as Airflow's auth manager decides it, and the connections of a user.

All uses of Airflow's API server beyond its public API are here, as nothing documented lets a plugin
authenticate its users. Functions that use the database must not be called in an event loop.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Annotated, Any, Literal
from urllib.parse import quote

from airflow.api_fastapi.core_api.security import get_user, requires_access_connection
from airflow.providers.common.compat.sdk import AirflowNotFoundException
from fastapi import Depends

from airflow_provider_workflow import airflow_internals
from airflow_provider_workflow.client.advice import why_missing
from airflow_provider_workflow.database.dag_runs import StoredRun
from airflow_provider_workflow.get_provider_info import CONN_TYPE
from airflow_provider_workflow.plugin.responses import PageError

LOGGED_IN = Depends(get_user)
"""Answers 401 without a user: ``app.mount`` inherits no dependency."""
MAY_READ, MAY_EDIT = (Depends(requires_access_connection(method)) for method in ("GET", "PUT"))
"""Answer 403 to users who must not use the connection of the path; they also apply the rules of teams."""
INBOX = "/connections/{connection_id}/inboxes/{inbox_id}"
"""The address of an inbox in the API."""
Action = Literal["read", "read runs", "start runs"]
ACTIONS: dict[Action, tuple[str, str | None]] = {
    "read": ("GET", None),
    "read runs": ("GET", "RUN"),
    "start runs": ("POST", "RUN"),
}
"""HTTP method and entity, as Airflow's auth manager knows what a user may do with a DAG."""


class PageUser:
    """
    A user, for one request, which asks each question once.

    :param user: as the auth manager knows it.
    """

    def __init__(self, user: Any) -> None:
        self._user = user
        self._answers: dict[tuple[Action, str], bool] = {}

    @property
    def name(self) -> str:
        """The name of the user, for notes and log lines."""
        return str(self._user.get_name())

    def may(self, action: Action, dag_id: str) -> bool:
        """Whether the user may do something with a DAG, by the same rules as in Airflow's own routes."""
        if (action, dag_id) not in self._answers:
            self._answers[action, dag_id] = self._decided(*ACTIONS[action], dag_id)
        return self._answers[action, dag_id]

    def _decided(self, method: str, entity: str | None, dag_id: str) -> bool:
        from airflow.api_fastapi.auth.managers.models.resource_details import (
            DagAccessEntity,
            DagDetails,
        )

        team = airflow_internals.team_of_dag(dag_id)
        which: dict[str, Any] = {
            "method": method,
            "access_entity": None if entity is None else DagAccessEntity[entity],
            "details": DagDetails(id=dag_id, team_name=team),
        }
        return bool(_auth_manager().is_authorized_dag(user=self._user, **which))

    def may_use_connection(self, connection_id: str | None, method: str = "GET") -> bool:
        """
        Whether the user may read a connection, as ``requires_access_connection`` decides it.

        :param connection_id: None for any connection.
        :param method: ``POST`` to add one.
        """
        from airflow.api_fastapi.auth.managers.models.resource_details import ConnectionDetails

        team = None if connection_id is None else airflow_internals.team_of_connection(connection_id)
        details: Any = ConnectionDetails(conn_id=connection_id, team_name=team)
        which: dict[str, Any] = {"method": method, "details": details}
        return bool(_auth_manager().is_authorized_connection(user=self._user, **which))

    def run(self, run_id: str, runs: Iterable[StoredRun]) -> dict[str, Any] | None:
        """The first of the runs with an id that the user may read, as JSON; None if there is none."""
        for run in runs:
            if self.may("read runs", run.dag_id):
                return run_of(run.dag_id, run_id, run.state)
        return None


async def _reader(user: Annotated[Any, LOGGED_IN]) -> PageUser:
    return PageUser(user)


User = Annotated[PageUser, Depends(_reader)]


def run_of(dag_id: str, run_id: str, state: str | None) -> dict[str, Any]:
    """A run as JSON, with its path in Airflow's UI, below the path of its base URL."""
    url = f"{dag_url(dag_id)}/runs/{quote(run_id, safe='')}"
    return {"dag_id": dag_id, "run_id": run_id, "state": state, "url": url}


def dag_url(dag_id: str) -> str:
    """Path of a DAG in Airflow's UI, below the path of its base URL."""
    return f"/dags/{quote(dag_id, safe='')}"


def _auth_manager() -> Any:
    # Not ``AuthManagerDep``, which looks into the state of the application: a mounted one has its own.
    from airflow.api_fastapi.app import get_auth_manager

    return get_auth_manager()


def connection(connection_id: str) -> Any:
    """
    A connection of the type Workflow with its secrets, from all backends, and that of its team.

    The SDK's ``BaseHook.get_connection`` finds no connections of teams in the API server.

    :raises PageError: there is no such connection.
    """
    from airflow.models.connection import Connection

    team = airflow_internals.team_of_connection(connection_id)
    of_team: dict[str, Any] = {} if team is None else {"team_name": team}
    problem = why_missing(connection_id)
    try:
        stored = Connection.get_connection_from_secrets(connection_id, **of_team)
        if stored.conn_type == CONN_TYPE:
            return stored
        # The secrets of a connection of another type must not be sent.
        problem = f"The connection {connection_id!r} is not of the type Workflow"
    except AirflowNotFoundException:
        pass
    fix = "the page needs a connection of the type Workflow with this id"
    raise PageError(404, "no_connection", problem, fix)


def connections(reader: PageUser) -> list[str]:
    """
    The ids of the connections that a user may read, from the database and the environment.

    Connections in other secrets backends cannot be listed.
    """
    from airflow.models.connection import Connection
    from sqlalchemy import select

    of_type = select(Connection.conn_id).where(Connection.conn_type == CONN_TYPE)
    with airflow_internals.database_session() as session:
        stored = set(session.scalars(of_type))
    return sorted(filter(reader.may_use_connection, stored.union(_ids_in_environment())))


def _ids_in_environment() -> Iterator[str]:
    from airflow.secrets.environment_variables import (
        CONN_ENV_PREFIX,
        EnvironmentVariablesBackend,
    )

    for variable in os.environ:
        name = variable.removeprefix(CONN_ENV_PREFIX).lower()
        # One that begins with "_" belongs to a team, whose connections are not listed from here.
        if not variable.startswith(CONN_ENV_PREFIX) or name[:1] in ("", "_"):
            continue
        stored = None
        with suppress(Exception):  # not a connection; Airflow reports it where it is used
            stored = EnvironmentVariablesBackend().get_connection(name)
        if stored is not None and stored.conn_type == CONN_TYPE:
            yield name
