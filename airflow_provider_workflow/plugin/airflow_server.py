"""
All uses of Airflow's API server beyond its public API: who may do what, and the connections of a user.

Each function wraps names that Airflow does not document for plugins; its docstring states why they are
needed, and what would replace them. A test checks that no other module except ``airflow_internals.py``
imports such names. Functions that use the database block: they must not be called in an event loop.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from airflow_provider_workflow import airflow_internals

TEAMS = "multi_team"


def get_user() -> Callable[..., Any]:
    """
    The dependency that returns the user of a request, or answers 401.

    ``app.mount`` inherits no authentication, and there is no documented way for a plugin to
    authenticate users. A documented dependency would replace it, as all others here.
    """
    from airflow.api_fastapi.core_api.security import get_user

    return get_user


def requires_connection(method: str) -> Callable[..., Any]:
    """
    The dependency that answers 403 to users who must not use the connection ``connection_id`` of the path.

    It also applies the rules of teams. See :func:`get_user`.

    :param method: ``GET`` or ``PUT``.
    """
    from airflow.api_fastapi.core_api.security import requires_access_connection

    check: Callable[..., Any] = requires_access_connection(method)  # type: ignore[arg-type]
    return check


def requires_dag_run() -> Callable[..., Any]:
    """The dependency that answers 403 to users who must not read runs of the DAG ``dag_id`` of the path."""
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
    from airflow.api_fastapi.core_api.security import requires_access_dag

    check: Callable[..., Any] = requires_access_dag("GET", DagAccessEntity.RUN)
    return check


def has_teams() -> bool:
    """Whether Airflow separates connections and DAGs of teams."""
    from airflow.configuration import conf

    return bool(conf.getboolean("core", TEAMS, fallback=False))


def _auth_manager() -> Any:
    """
    The auth manager of the API server.

    Not ``AuthManagerDep``, which looks into the state of the application: a mounted one has its own.
    """
    from airflow.api_fastapi.app import get_auth_manager

    return get_auth_manager()


def may_use_connection(user: Any, connection_id: str) -> bool:
    """Whether a user may read a connection, as :func:`requires_connection` decides it."""
    from airflow.api_fastapi.auth.managers.models.resource_details import ConnectionDetails

    details = ConnectionDetails(conn_id=connection_id, team_name=_team_of_connection(connection_id))
    return bool(_auth_manager().is_authorized_connection(method="GET", details=details, user=user))


def may_read_dag(user: Any, dag_id: str) -> bool:
    """Whether a user may read a DAG."""
    return _is_authorized(user, "GET", dag_id, None)


def may_read_runs(user: Any, dag_id: str) -> bool:
    """Whether a user may read the runs of a DAG."""
    return _is_authorized(user, "GET", dag_id, "RUN")


def may_trigger(user: Any, dag_id: str) -> bool:
    """Whether a user may start runs of a DAG, by the same rule as Airflow's own route."""
    return _is_authorized(user, "POST", dag_id, "RUN")


def _is_authorized(user: Any, method: str, dag_id: str, entity: str | None) -> bool:
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
    from airflow.models.dag import DagModel

    team = DagModel.get_team_name(dag_id) if has_teams() else None
    access = None if entity is None else DagAccessEntity[entity]
    details = DagDetails(id=dag_id, team_name=team)
    asked: dict[str, Any] = {"method": method, "access_entity": access, "details": details, "user": user}
    return bool(_auth_manager().is_authorized_dag(**asked))


def name_of(user: Any) -> str:
    """The name of a user, for notes and log lines."""
    return str(user.get_name())


def _team_of_connection(connection_id: str) -> str | None:
    from airflow.models.connection import Connection

    return Connection.get_team_name(connection_id) if has_teams() else None


def connection(connection_id: str) -> Any:
    """
    A connection with its secrets, from all backends, and that of its team where there are teams.

    The SDK's ``BaseHook.get_connection`` finds no connections of teams in the API server.

    :raises AirflowNotFoundException: there is no such connection.
    """
    from airflow.models.connection import Connection

    team = _team_of_connection(connection_id)
    given: dict[str, Any] = {} if team is None else {"team_name": team}
    return Connection.get_connection_from_secrets(connection_id, **given)


def connections_of_type(conn_type: str) -> dict[str, str | None]:
    """
    Ids and descriptions of the connections of a type, from the database and the environment.

    Connections in other secrets backends cannot be listed.
    """
    from airflow.models.connection import Connection
    from sqlalchemy import select

    wanted = select(Connection.conn_id, Connection.description).where(Connection.conn_type == conn_type)
    with airflow_internals.database_session() as session:
        found: dict[str, str | None] = {row.conn_id: row.description for row in session.execute(wanted)}
    for conn_id in _ids_in_environment():
        if conn_id not in found and _type_in_environment(conn_id) == conn_type:
            found[conn_id] = None
    return dict(sorted(found.items()))


def _ids_in_environment() -> Iterable[str]:
    from airflow.secrets.environment_variables import CONN_ENV_PREFIX

    variables = (name for name in os.environ if name.startswith(CONN_ENV_PREFIX))
    names = (name.removeprefix(CONN_ENV_PREFIX) for name in variables)
    # A name that begins with "_" belongs to a team, whose connections are not listed from here.
    return [name.lower() for name in names if name and not name.startswith("_")]


def _type_in_environment(connection_id: str) -> str | None:
    from airflow.secrets.environment_variables import EnvironmentVariablesBackend

    try:
        found = EnvironmentVariablesBackend().get_connection(connection_id)
    except Exception:  # not a connection; Airflow reports it where it is used
        return None
    return None if found is None else str(found.conn_type)


def paused(dag_ids: Iterable[str]) -> dict[str, bool]:
    """Whether each of these DAGs is paused; those that are in no DAG file are missing."""
    from airflow.models.dag import DagModel
    from sqlalchemy import select

    wanted = select(DagModel.dag_id, DagModel.is_paused)
    with airflow_internals.database_session() as session:
        rows = session.execute(wanted.where(DagModel.dag_id.in_(list(dag_ids)), ~DagModel.is_stale)).all()
    return {dag_id: bool(is_paused) for dag_id, is_paused in rows}
