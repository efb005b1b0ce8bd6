"""
Tests a connection in two steps: request a new token, use it once.

The test of the connection form makes both steps, and the command ``doctor`` the first. A trial uses neither
the token cache nor the store of user tokens, and makes one attempt per call.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import cached_property
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


class Trial:
    """
    Tests a connection with a token of the application, whatever the connection's grant. Must be closed.

    :param settings: the checked connection.
    :param on_token: called with the token, so that logs can mask it.
    """

    def __init__(self, settings: Settings, on_token: Callable[[str], None]) -> None:
        self.settings = replace(settings, grant=APP_GRANT)
        self._on_token = on_token
        self._tokens = TokenCache()

    @cached_property
    def client(self) -> WorkflowClient:
        """Makes one attempt per call, with the token of this trial."""
        from airflow_provider_workflow.client.client import WorkflowClient
        from airflow_provider_workflow.client.exchange import Gates

        return WorkflowClient(
            self.settings, tokens=self._tokens, gates=Gates(), on_token=self._on_token, attempts=1
        )

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    def token(self) -> str:
        """
        Request a token, which later calls of this trial use.

        :return: its space-separated scopes; those requested if the answer has none (RFC 6749, section 5.1).
        :raises WorkflowError: no token was issued.
        """
        requested, asked_at = self.settings.scope, clock.monotonic()
        answer = self.client.send(api.app_token(requested))
        token = self._tokens.put(token_key(self.settings, requested), issued_token(answer, asked_at))
        self._on_token(token.value)
        granted = answer.get("scope")
        return granted if isinstance(granted, str) else requested

    def use(self) -> None:
        """
        Use the token once.

        :raises WorkflowError: the trigger inbox API does not accept it.
        """
        self.client.send(api.list_inboxes(limit=1))


def trial(
    connection: Callable[[], Settings],
    on_token: Callable[[str], None],
) -> tuple[bool, str]:
    """
    Test a connection, for the connection form.

    The UI tests a copy of the connection with a random id of 8 letters and digits (Airflow 3.2 and 3.3), for
    which no user tokens are stored.

    :param connection: returns the settings of the connection, or raises ``ConfigurationError``.
    :param on_token: called with the token, so that logs can mask it.
    :return: whether the test succeeded, and one sentence about the result.
    """
    step = TOKEN
    try:
        settings = connection()
        with closing(Trial(settings, on_token)) as tried:
            tried.token()
            if settings.grant == USER_GRANT:
                return True, USER
            step = API
            tried.use()
    except ConfigurationError as error:
        return False, str(error)
    except WorkflowError as error:
        return False, f"{step}: {reason_of(error)}" + (f" ({error.fix})" if error.fix else "")
    return True, "A token was issued and the trigger inbox API accepts it."
