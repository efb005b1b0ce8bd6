"""
The store of user tokens: one Airflow Variable per connection (docs/service.md 14.3).

It is a Variable because the tokens change with every refresh, and all workers and triggerers need the new
ones. Airflow encrypts it, and masks it in the UI, as its name contains "token".

Every task can write Variables. A signature with the client secret binds the tokens to the connection, so that
planted tokens of another account, whose inboxes would start the DAGs, are rejected.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, astuple

from airflow_provider_workflow import airflow_internals
from airflow_provider_workflow.client.errors import ConfigurationError, LoginRequiredError, TokenStoreError
from airflow_provider_workflow.client.settings import USER_GRANT, Settings
from airflow_provider_workflow.client.user_tokens import UserTokens

PREFIX = "workflow_token__"
DESCRIPTION = "Tokens of the user who logged in for a workflow connection. Changes with every renewal."


def variable_name(connection_id: str) -> str:
    """
    Name of the Variable with a connection's user tokens.

    Connection ids that are too long, or have characters that the URL of a Variable cannot have, are hashed.
    """
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}", connection_id):
        return PREFIX + connection_id
    return PREFIX + hashlib.sha256(connection_id.encode()).hexdigest()


class VariableStore:
    """
    Stores the user tokens of one connection in an Airflow Variable. Its methods block.

    :param settings: the connection.
    :param mask: called with every token and the Variable's value, so that logs can mask them; for tasks and
        commands only, as Airflow keeps what it masks for as long as the process lives.
    :raises ConfigurationError: Airflow has teams, and would give the Variable to all of them.
    """

    def __init__(self, settings: Settings, mask: Callable[[str], None] = lambda _: None) -> None:
        if airflow_internals.has_teams():
            raise ConfigurationError(
                [
                    f"grant {USER_GRANT} cannot be used where Airflow has teams ([core] multi_team), as each"
                    " team can read the Variable with the tokens: use client_credentials"
                ]
            )
        self.name = variable_name(settings.connection_id)
        self._key = settings.client_secret.encode()
        self._connection_id = settings.connection_id
        self._mask = mask

    def read(self) -> UserTokens | None:
        """
        The tokens that were stored last; None if there are none.

        :raises TokenStoreError: the Variable could not be read.
        :raises LoginRequiredError: its value was changed by hand, or the client secret was changed.
        """
        try:
            value = airflow_internals.variables().get(self.name, None)
        except Exception as error:  # any exception of Airflow's API, its database or a secrets backend
            raise self._away("read", error) from error
        if value is None:
            return None
        text = str(value)
        self._mask(text)
        tokens = self._tokens_of(text)
        del text, value
        if tokens is None:
            # Raised after the ``suppress`` of ``_tokens_of``: within it, it would have a context, which
            # contains the value.
            reason = f"the Variable {self.name!r} was changed by hand, or the client secret since the login"
            raise LoginRequiredError(self._connection_id, reason)
        self._hide(tokens)
        return tokens

    def write(self, tokens: UserTokens) -> None:
        """
        Store tokens, replacing earlier ones.

        :raises TokenStoreError: the Variable could not be written.
        """
        self._hide(tokens)
        value = json.dumps({**asdict(tokens), "signature": self._signature(tokens)})
        try:
            airflow_internals.variables().set(self.name, value, description=DESCRIPTION)
            return
        except Exception as error:  # as above
            away = self._away("written", error)
        # Raised after the except clause: within it, it would have a context, whose frames contain the value.
        del value
        raise away

    def _away(self, what: str, error: Exception) -> TokenStoreError:
        return TokenStoreError(f"the Airflow Variable {self.name!r} cannot be {what}: {type(error).__name__}")

    def _hide(self, tokens: UserTokens) -> None:
        self._mask(tokens.access_token)
        self._mask(tokens.refresh_token)

    def _tokens_of(self, text: str) -> UserTokens | None:
        """The tokens of the value of the Variable; None if this connection did not store them."""
        with suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
            fields = json.loads(text)
            signature = fields.pop("signature").encode()
            tokens = UserTokens(**fields)
            if hmac.compare_digest(signature, self._signature(tokens).encode()):
                return tokens
        return None

    def _signature(self, tokens: UserTokens) -> str:
        signed = json.dumps([self._connection_id, *astuple(tokens)])
        return hmac.new(self._key, signed.encode(), "sha256").hexdigest()
