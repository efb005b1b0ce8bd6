"""What to correct in a connection that the service refuses."""

from __future__ import annotations

import shlex
from http import HTTPStatus
from typing import Any

from airflow_provider_workflow.client.call import CONNECTION_SCOPE, Call, Family, Identity
from airflow_provider_workflow.client.errors import AuthenticationError
from airflow_provider_workflow.client.settings import USER_GRANT, Settings
from airflow_provider_workflow.client.wire import host_of


def name_connection(error: AuthenticationError, call: Call[Any], settings: Settings) -> None:
    """
    Let an error name the connection, the host that refused it, and what to correct.

    A connection without an id is left unnamed.
    """
    if not settings.connection_id:
        return
    # A success that holds no token is of the token endpoint as well, whichever call needed the token.
    if call.family is Family.TOKEN or error.status == HTTPStatus.OK:
        host, cure = settings.token_url, _of_token(error, settings)
    else:
        host, cure = settings.base_url, _of_api(error, call, settings)
    error.refused_by(host_of(host), settings.connection_id, cure)


def _of_token(error: AuthenticationError, settings: Settings) -> str:
    if error.code == "invalid_scope":
        return "correct its Scope or have the application allowed to use it"
    if error.code == "invalid_grant":
        return _log_in(settings)
    if error.status in (401, 403) or "client" in (error.code or ""):
        return "correct its Login (client ID) and Password (client secret)"
    return "correct its Token URL, which must be the token endpoint exactly as the service gives it"


def _of_api(error: AuthenticationError, call: Call[Any], settings: Settings) -> str:
    if call.identity is Identity.CLIENT_ID:
        return "correct its Login (client ID)"
    if call.scope != CONNECTION_SCOPE:
        return f"have the application allowed to use the scope {call.scope}"
    if error.code == "invalid_audience":
        if settings.grant == USER_GRANT:
            return f"correct its Scope and {_log_in(settings)}"
        return "correct its Scope, and take Host and Token URL from one service"
    return "have the application allowed to use trigger inboxes, and take Host and Token URL from one service"


def _log_in(settings: Settings) -> str:
    return f"log in again (airflow-workflow login --conn-id {shlex.quote(settings.connection_id)})"
