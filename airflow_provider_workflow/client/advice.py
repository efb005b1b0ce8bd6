"""
What to do about a call that failed, in words for users.

Error messages, the connection test and the command ``doctor`` give the same advice.
"""

from __future__ import annotations

import os
import shlex
from http import HTTPStatus
from typing import Any

from airflow_provider_workflow.client.call import PROMOTIONS_SCOPE, WITH_CLIENT_ID, Call, Family
from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    ConfigurationError,
    LoginRequiredError,
    NotFoundError,
    RateLimitError,
    ServerError,
    TokenStoreError,
    TransportError,
    WorkflowAPIError,
    WorkflowError,
)
from airflow_provider_workflow.client.settings import USER_GRANT, Settings
from airflow_provider_workflow.text import host_of

INBOX_SCOPE = "external"
"""The scope that trigger inboxes require (docs/service.md 14.4)."""
SCOPE_FIX = f"set Scope to {INBOX_SCOPE}, or leave it empty"


def why_missing(conn_id: str) -> str:
    """Why Airflow does not find a connection, and what to do about it."""
    variable = f"AIRFLOW_CONN_{conn_id.upper()}"
    if variable in os.environ:
        return f"Airflow cannot read {variable} (give a URI or JSON)"
    fix = f"add it in Airflow's UI (Admin, Connections), set {variable}, or name another"
    return f"Airflow has no connection {conn_id!r} ({fix})"


def reason_of(error: WorkflowError) -> str:
    """What happened, without the connection and the fix, which the caller adds."""
    if isinstance(error, AuthenticationError) and not isinstance(error, LoginRequiredError):
        return error.reason
    return str(error)


def add_fix(error: WorkflowError, call: Call[Any], settings: Settings) -> None:
    """
    Add to an error of a call what to do about it, unless it has that, and to the message of a rejection the
    connection and the host.
    """
    is_login = isinstance(error, LoginRequiredError)
    is_rejection = isinstance(error, AuthenticationError) and not is_login
    if isinstance(error, ConfigurationError) or (error.fix and not is_rejection):
        return
    # A rejection with a fix is that of a token, which a caller with another connection may have requested.
    # A 200 without a token also comes from the token endpoint, whatever the family of the call.
    is_of_token = call.family is Family.TOKEN or getattr(error, "status", None) == HTTPStatus.OK
    is_of_token |= bool(error.fix)
    if isinstance(error, AuthenticationError):
        error.fix = _of_token(error, settings) if is_of_token else _of_api(error, call, settings)
        if settings.connection_id:
            host = host_of(settings.token_url if is_of_token else settings.base_url)
            is_rejected = error.status in (401, 403) or (
                error.status == HTTPStatus.BAD_REQUEST and error.code
            )
            does = "rejects the credentials of" if is_rejected else "gives no access token for"
            what = f"{host} {does} the connection {settings.connection_id!r}"
            error.args = (f"{what} ({error.reason}): {error.fix}",)
    elif isinstance(error, RateLimitError):
        error.fix = "too many requests were made; try again later"
    elif isinstance(error, ServerError):
        error.fix = "try again later"
    elif is_of_token:
        rule = "it must be the token endpoint exactly as the service gives it"
        error.fix = _of_address(error, "Token URL", settings.token_url, rule)
    elif isinstance(error, NotFoundError) and call.name == "list_inboxes":
        error.fix = f"check Inbox path ({settings.inbox_path}) and Base URL"
    elif (isinstance(error, TransportError) and not isinstance(error, TokenStoreError)) or (
        isinstance(error, WorkflowAPIError) and error.status < HTTPStatus.BAD_REQUEST
    ):
        # Something other than the API of the service may have answered, or nothing.
        rule = "they must lead to the API of the service"
        error.fix = _of_address(error, "Base URL and Inbox path", settings.base_url, rule)


def _of_address(error: WorkflowError, field: str, url: str, rule: str) -> str:
    if isinstance(error, TransportError) and not error.sent and error.permanent:
        return "set Verify TLS (verify) to a file with the certificate of its authority"
    if isinstance(error, TransportError) and error.sent and error.timed_out:
        return "try again later, or increase Timeout (timeout)"
    if isinstance(error, TransportError) and not error.sent:
        scheme = " (https unless the URL says http)" if url.startswith("https:") else ""
        return f"check {field}{scheme}, and the network connection to it"
    return f"check {field}: {rule}"


def _of_token(error: AuthenticationError, settings: Settings) -> str:
    if error.code == "invalid_scope":
        return "correct the scope, or have the application allowed to use it"
    if error.code == "invalid_grant":
        return _log_in(settings)
    if error.status in (401, 403) or "client" in (error.code or ""):
        fix = "correct its Client ID (login) and Client secret (password)"
        if settings.client_secret == settings.client_secret.strip():
            return fix
        doubt = "the client secret begins or ends with a space: remove it unless it belongs to the secret"
        return f"{doubt}; then {fix}"
    return "correct its Token URL, which must be the token endpoint exactly as the service gives it"


def _of_api(error: AuthenticationError, call: Call[Any], settings: Settings) -> str:
    if call.family in WITH_CLIENT_ID:
        return "correct its Client ID (login)"
    if call.family is Family.PROMOTIONS:
        return f"have the application allowed to use the scope {PROMOTIONS_SCOPE}"
    if error.code == "invalid_audience":
        if settings.grant == USER_GRANT:
            return f"correct its Scope and {_log_in(settings)}"
        return "correct its Scope, and take Base URL (host) and Token URL from one service"
    return (
        "have the application allowed to use trigger inboxes, and take Base URL (host) and Token URL from one"
        " service"
    )


def _log_in(settings: Settings) -> str:
    return f"log in again (airflow-workflow login --conn-id {shlex.quote(settings.connection_id)})"
