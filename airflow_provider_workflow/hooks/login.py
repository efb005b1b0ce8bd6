"""A user logs in: what the authorization page sent back is checked, then kept (specification 5.2)."""

from __future__ import annotations

import hmac
from collections.abc import Callable

from airflow_provider_workflow.client import types
from airflow_provider_workflow.client.auth import TOKENS, token_key
from airflow_provider_workflow.client.errors import ConfigurationError
from airflow_provider_workflow.client.settings import USER_GRANT, Settings
from airflow_provider_workflow.client.user_tokens import UserTokens
from airflow_provider_workflow.hooks.user_tokens import VariableStore


def check_state(state: str, expected: str) -> None:
    """
    Make sure that a redirect answers our own request, before its code is used (specification 5.2.2).

    :raises ValueError: it does not, or nothing was expected.
    """
    if not (expected and hmac.compare_digest(state.encode(), expected.encode())):
        raise ValueError("state is not the one that was sent: this is no answer to our own request")


def check_grant(settings: Settings) -> None:
    """
    Make sure that a user's tokens would be used.

    :raises ConfigurationError: the connection uses those of the application.
    """
    if settings.grant != USER_GRANT:
        raise ConfigurationError([f"grant must be {USER_GRANT} for a user's tokens to be used"])


def keep(settings: Settings, token: types.Token, asked_at: float, mask: Callable[[str], None]) -> None:
    """
    Store a user's tokens in the place of those before.

    :param asked_at: when they were asked for, in seconds since 1970.
    :param mask: told every token, so that logs can mask it.
    """
    check_grant(settings)
    VariableStore(settings, mask).write(UserTokens.of(token, asked_at))
    TOKENS.forget(token_key(settings, settings.scope))
