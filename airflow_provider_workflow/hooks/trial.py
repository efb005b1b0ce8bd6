"""
Tests a connection in two steps: request a new token, use it once.

The test of the connection form makes both steps, and the command ``doctor`` the first. They use neither the
token cache nor the store of user tokens, and make one attempt per call.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_workflow import clock
from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.advice import reason_of
from airflow_provider_workflow.client.errors import ConfigurationError, WorkflowError
from airflow_provider_workflow.client.settings import APP_GRANT, USER_GRANT, Settings
from airflow_provider_workflow.client.tokens import TokenCache, issued_token, token_key

if TYPE_CHECKING:
    from airflow_provider_workflow.client.client import WorkflowClient

TOKEN = "No access token"  # noqa: S105 the beginning of a sentence
API = "A token was issued, but the trigger inbox API did not accept it"
USER = (
    "The token endpoint accepts the client ID and the client secret. Tokens of users are not tested here: "
    "a test must not invalidate the refresh token that tasks depend on."
)


def trial_client(settings: Settings, on_token: Callable[[str], None]) -> WorkflowClient:
    """
    A client that uses tokens of the application, whatever the connection's grant. Must be closed.

    :param settings: the checked connection.
    :param on_token: called with each token, so that logs can mask it.
    """
    from airflow_provider_workflow.client.client import WorkflowClient
    from airflow_provider_workflow.client.exchange import Gates

    settings = replace(settings, grant=APP_GRANT)
    return WorkflowClient(settings, tokens=TokenCache(), gates=Gates(), on_token=on_token, attempts=1)


def new_token(client: WorkflowClient, on_token: Callable[[str], None]) -> str:
    """
    Request a token, which later calls of this client use.

    :param client: of :func:`trial_client`.
    :return: its space-separated scopes; those requested if the answer has none (RFC 6749, section 5.1).
    :raises WorkflowError: no token was issued.
    """
    requested, asked_at = client.settings.scope, clock.monotonic()
    answer = client.send(api.app_token(requested))
    token = client.tokens.put(token_key(client.settings, requested), issued_token(answer, asked_at))
    on_token(token.value)
    granted = answer.get("scope")
    return granted if isinstance(granted, str) else requested


def trial(
    connection: Callable[[], Settings],
    on_token: Callable[[str], None],
) -> tuple[bool, str]:
    """
    Test a connection, for the connection form.

    The UI tests a copy of the connection with a random id, for which no user tokens are stored.

    :param connection: returns the settings of the connection, or raises ``ConfigurationError``.
    :param on_token: called with the token, so that logs can mask it.
    :return: whether the test succeeded, and one sentence about the result.
    """
    step = TOKEN
    try:
        settings = connection()
        with closing(trial_client(settings, on_token)) as client:
            new_token(client, on_token)
            if settings.grant == USER_GRANT:
                return True, USER
            step = API
            client.send(api.list_inboxes(limit=1))
    except ConfigurationError as error:
        return False, str(error)
    except WorkflowError as error:
        return False, f"{step}: {reason_of(error)}" + (f" ({error.fix})" if error.fix else "")
    return True, "A token was issued and the trigger inbox API accepts it."
