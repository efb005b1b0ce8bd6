"""
A connection tried step by step: a new token, one use of it.

The connection form's test makes one sentence of it, the command ``doctor`` a list of findings. Both go
past the token cache and the store of user tokens, and send each call once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from airflow_provider_workflow import clock
from airflow_provider_workflow.client import api, types
from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    ConfigurationError,
    LoginRequiredError,
    TransportError,
    WorkflowError,
)
from airflow_provider_workflow.client.settings import APP_GRANT, USER_GRANT, Settings
from airflow_provider_workflow.client.tokens import TokenCache, token_key

if TYPE_CHECKING:
    from airflow_provider_workflow.client.client import WorkflowClient
    from airflow_provider_workflow.client.wire import Answer

TOKEN = "No access token"  # noqa: S105 the beginning of a sentence
API = "A token was issued, but the trigger inbox API did not take it"
USER = (
    "The token endpoint takes the client ID and the client secret. Tokens of users are not tried here: "
    "a test must not use up the refresh token that tasks depend on."
)
ADDRESS = {TOKEN: "Token URL", API: "Base URL"}


@dataclass(frozen=True)
class Issued:
    """
    What came with a token, the token left out.

    :param scope: space-separated scopes that were granted; those asked for where the answer names none
        (RFC 6749, section 5.1).
    :param ahead: seconds that the service's clock is ahead of ours; None where it does not tell the time.
    """

    scope: str
    ahead: float | None


class Trial:
    """
    The application itself asks for a token, whatever the connection's grant. To be closed.

    :param settings: the checked connection.
    :param on_token: told the token, so that logs can mask it.
    """

    def __init__(self, settings: Settings, on_token: Callable[[str], None]) -> None:
        self.settings = replace(settings, grant=APP_GRANT)
        self._on_token = on_token
        self._tokens = TokenCache()

    @cached_property
    def client(self) -> WorkflowClient:
        """Sends each call once, with the token of this trial."""
        from airflow_provider_workflow.client.attempt import Gates
        from airflow_provider_workflow.client.client import WorkflowClient

        return WorkflowClient(
            self.settings, tokens=self._tokens, gates=Gates(), on_token=self._on_token, attempts=1
        )

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    def token(self) -> Issued:
        """
        Ask for a token; the calls that follow are sent with it.

        :raises WorkflowError: none was issued.
        """
        call = api.app_token(self.settings.scope)
        answers: list[Answer] = []

        def read(answer: Answer) -> types.Token:
            answers.append(answer)
            return call.read(answer)

        asked_at, began = clock.monotonic(), clock.now()
        token = self.client.send(replace(call, read=read))
        middle = (began + clock.now()) / 2
        key = token_key(self.settings, self.settings.scope)
        self._on_token(self._tokens.keep(key, token, asked_at))
        ahead = answers[0].now() - middle if "date" in answers[0].headers else None
        scope = token.get("scope")
        return Issued(scope if isinstance(scope, str) else self.settings.scope, ahead)

    def use(self) -> None:
        """
        Use the token once.

        :raises WorkflowError: the trigger inbox API does not take it.
        """
        self.client.send(api.list_inboxes(limit=1))


def trial(connection: Callable[[], Settings], on_token: Callable[[str], None]) -> tuple[bool, str]:
    """
    Try a connection, for the connection form.

    The page tests a copy of the connection under a random id of 8 letters and digits (Airflow 3.1 to
    3.3), for which no tokens of users are stored.

    :param connection: checks the connection's fields.
    :param on_token: told the token, so that logs can mask it.
    :return: whether it works, and one sentence about it.
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
        return False, f"{step}: {plain_reason(error)}{_cure(error, step)}"
    return True, "A token was issued and the trigger inbox API accepts it."


def plain_reason(error: WorkflowError) -> str:
    """What the service answered, for those who name the connection and the fix themselves."""
    if isinstance(error, AuthenticationError) and not isinstance(error, LoginRequiredError):
        return error.reason
    return str(error)


def _cure(error: WorkflowError, step: str) -> str:
    if isinstance(error, TransportError):
        return f" (check {ADDRESS[step]} and the network between)"
    if isinstance(error, AuthenticationError):
        return " (check Client ID, Client secret and Scope)"
    return ""
