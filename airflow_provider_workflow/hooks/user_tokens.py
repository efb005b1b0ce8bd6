"""
The store of user tokens: one Airflow Variable per connection (docs/service.md 14.3).

A Variable, because the tokens change with every refresh and all workers and triggerers have to see
the change. Airflow encrypts it and masks it in the page, its name holding "token"; but every task
may read every Variable, so its value is encrypted once more, with a key that only those have who can
read the connection. A connection whose client secret is changed can read its tokens no more.

What is lost where a process dies between the service's answer and the Variable is told in
``client/tokens.py``.
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow import airflow_internals, clock
from airflow_provider_workflow.client.call import UserTokens
from airflow_provider_workflow.client.errors import LoginRequiredError, TokenStoreError
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.tokens import TOKENS, access_token, is_users, token_key
from airflow_provider_workflow.client.types import Token

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

    from airflow_provider_workflow.client.client import WorkflowClient

PREFIX = "workflow_token__"
DESCRIPTION = (
    "Tokens of the user who logged in for a workflow connection, encrypted. Changes with every renewal."
)
PURPOSE = b"airflow-provider-workflow: user tokens of the connection "
UNREADABLE = (
    "the client secret is not the one they were stored with, or the Variable {name!r} was changed by hand"
)


def variable_name(connection_id: str) -> str:
    """
    Name of the Variable that keeps a connection's user tokens.

    Connection ids may be longer, and hold signs that a Variable's address may not; such are hashed.
    """
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}", connection_id):
        return PREFIX + connection_id
    return PREFIX + hashlib.sha256(connection_id.encode()).hexdigest()


class VariableStore:
    """
    Keeps the user tokens of one connection in an Airflow Variable. Its methods block.

    :param settings: the connection.
    :param mask: told every token, and what holds them, so that logs can mask it.
    """

    def __init__(self, settings: Settings, mask: Callable[[str], None]) -> None:
        self.name = variable_name(settings.connection_id)
        self._settings = settings
        self._mask = mask

    def read(self) -> UserTokens | None:
        """
        The tokens that were stored last; None where there are none.

        :raises TokenStoreError: Airflow does not give the Variable out.
        :raises LoginRequiredError: it cannot be decrypted.
        """
        try:
            text = read_variable(self.name)
        except Exception as error:  # whatever Airflow's API, its database or a secrets backend raise
            raise self._away("read", error) from error
        if text is None:
            return None
        # Airflow masks it by itself, and for ever; told of it, a triggerer's mask lets it go in time.
        self._mask(text)
        tokens = self._opened(text)
        self._hide(tokens)
        return tokens

    def write(self, tokens: UserTokens) -> None:
        """
        Store tokens in the place of those before.

        :raises TokenStoreError: Airflow does not take them.
        """
        self._hide(tokens)
        text = self._cipher().encrypt(json.dumps(asdict(tokens)).encode()).decode()
        try:
            write_variable(self.name, text)
        except Exception as error:  # as above
            raise self._away("written", error) from error

    def _away(self, what: str, error: Exception) -> TokenStoreError:
        return TokenStoreError(f"the Airflow Variable {self.name!r} cannot be {what}: {type(error).__name__}")

    def _opened(self, text: str) -> UserTokens:
        from cryptography.fernet import InvalidToken

        with suppress(InvalidToken, ValueError, TypeError):
            return UserTokens(**json.loads(self._cipher().decrypt(text.encode())))
        # Out here it has no context: an error about the decrypted text holds it.
        raise LoginRequiredError(self._settings.connection_id, UNREADABLE.format(name=self.name))

    def _cipher(self) -> Fernet:
        from cryptography.fernet import Fernet
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        # HKDF stretches nothing: the secret is long and random already, being made by the service.
        purpose = PURPOSE + self._settings.connection_id.encode()
        derive = HKDF(SHA256(), length=32, salt=self._settings.client_id.encode(), info=purpose)
        return Fernet(urlsafe_b64encode(derive.derive(self._settings.client_secret.encode())))

    def _hide(self, tokens: UserTokens) -> None:
        self._mask(tokens.access_token)
        self._mask(tokens.refresh_token)


def in_use(settings: Settings, scope: str, client: WorkflowClient) -> Token | None:
    """
    The user's access token that this process sends now, renewed first where it is due.

    :param scope: space-separated scopes; None is returned where the application's own token is sent for them.
    """
    if not is_users(settings, scope):
        return None
    key = token_key(settings, scope)
    value = client.run(access_token(TOKENS, key))
    kept = TOKENS.usable(key)
    seconds = kept.expires_at - clock.monotonic() if kept is not None else 0
    return {"access_token": value, "expires_in": int(seconds), "token_type": "Bearer", "scope": scope}


def read_variable(name: str) -> str | None:
    """
    The value of an Airflow Variable, or None.

    In tasks and triggerers None may also mean that Airflow's API does not answer: the SDK does not
    tell the two apart.
    """
    if not airflow_internals.is_supervised():
        return airflow_internals.stored_variable(name)
    from airflow.sdk import Variable

    value: Any = Variable.get(name, default=None)
    return None if value is None else str(value)


def write_variable(name: str, value: str, description: str = DESCRIPTION) -> None:
    """Set an Airflow Variable; it is set once this returns."""
    if not airflow_internals.is_supervised():
        return airflow_internals.store_variable(name, value, description)
    from airflow.sdk import Variable

    Variable.set(name, value, description=description)
