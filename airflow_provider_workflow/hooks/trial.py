"""What the connection form's test does: asks for a token, uses it once, and says which step failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    ConfigurationError,
    TransportError,
    WorkflowError,
)
from airflow_provider_workflow.client.settings import APP_GRANT, USER_GRANT, Settings

TOKEN = "No access token"  # noqa: S105 the beginning of a sentence
API = "A token was issued, but the trigger inbox API did not take it"
USER = (
    "The token endpoint takes the client ID and the client secret. Tokens of users are not tried here: "
    "a test must not use up the refresh token that tasks depend on."
)
ADDRESS = {TOKEN: "Token URL", API: "Base URL"}


def trial(connection: Callable[[], Settings], on_token: Callable[[str], None]) -> tuple[bool, str]:
    """
    Try a connection, past the token cache and the store of user tokens.

    The page tests a copy of the connection under a random id of 8 letters and digits (Airflow 3.1 to
    3.3), for which no tokens are stored; so the application itself asks for a token, whatever the grant.

    :param connection: checks the connection's fields.
    :param on_token: told the token, so that logs can mask it.
    :return: whether it works, and one sentence about it.
    """
    from airflow_provider_workflow.client.auth import TokenCache, access_token
    from airflow_provider_workflow.client.client import WorkflowClient

    step = TOKEN
    tokens = TokenCache()
    try:
        given = connection()
        settings = replace(given, grant=APP_GRANT)
        with WorkflowClient(settings, tokens=tokens, on_token=on_token, attempts=1) as client:
            on_token(client.run(access_token(tokens, settings, settings.scope)))
            if given.grant == USER_GRANT:
                return True, USER
            step = API
            client.send(api.list_inboxes(limit=1))
    except ConfigurationError as error:
        return False, str(error)
    except WorkflowError as error:
        return False, f"{step}: {error}{_cure(error, step)}"
    return True, "A token was issued and the trigger inbox API accepts it."


def _cure(error: WorkflowError, step: str) -> str:
    if isinstance(error, TransportError):
        return f" (check {ADDRESS[step]} and the network between)"
    if isinstance(error, AuthenticationError):
        return " (check Client ID, Client secret and Scope)"
    return ""
