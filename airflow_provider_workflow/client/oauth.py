"""
The token that a call is sent with: whose it is, and how it is renewed (docs/service.md 14).

The exchange is a generator over steps; a sender performs each step in its own way (see
``conversation.py``), so renewal is written once for tasks and triggers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from functools import lru_cache
from typing import Any

from airflow_provider_workflow import clock
from airflow_provider_workflow.client import api, types
from airflow_provider_workflow.client.call import Call
from airflow_provider_workflow.client.errors import (
    RateLimitError,
    ServerError,
    TransportError,
    WorkflowError,
)
from airflow_provider_workflow.client.settings import APP_GRANT, USER_GRANT, Settings
from airflow_provider_workflow.client.steps import CarryThrough
from airflow_provider_workflow.client.tokens import Key, Renewal, TokenCache
from airflow_provider_workflow.client.user_tokens import user_token

TokenStep = Call[types.Token] | Renewal | CarryThrough


def is_users(settings: Settings, scope: str) -> bool:
    """
    Whether a token of this scope is the user's. What the application does on its own behalf
    (docs/service.md 14, promotions) is done with an app token in any case.
    """
    return settings.grant == USER_GRANT and scope == settings.scope


def token_key(settings: Settings, scope: str) -> Key:
    """What tells one token from another; the secret itself is no part of it."""
    secret = _digest(settings.client_secret)
    grant, user = (USER_GRANT, settings.connection_id) if is_users(settings, scope) else (APP_GRANT, "")
    return Key(settings.token_url, settings.client_id, grant, scope, secret, user)


@lru_cache(maxsize=64)
def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def access_token(cache: TokenCache, key: Key) -> Generator[TokenStep, Any, str]:
    """
    The token of this key, from the cache where it is fresh.

    Yields the token call to send, the exchange that renews a user's tokens, or another caller's
    renewal to wait for. A token that is due but not yet expired is used on while the token endpoint
    or the store of user tokens is out of reach.
    """
    while True:
        token = cache.usable(key)
        if token is not None and clock.monotonic() < token.renew_at:
            return token.value
        renewal, mine = cache.join(key)
        if not mine:
            yield renewal
            continue
        error: Exception | None = None
        try:
            if key.grant == USER_GRANT:
                value: str = yield CarryThrough(user_token(cache, key.user, key))
                return value
            asked_at = clock.monotonic()
            answer: types.Token = yield api.app_token(key.scope)
            return cache.keep(key, answer, asked_at)
        except (TransportError, ServerError, RateLimitError) as fault:
            if (kept := cache.postpone(key)) is not None:
                return kept
            error = fault
            raise
        except WorkflowError as fault:
            error = fault
            raise
        finally:
            cache.leave(key, renewal, error)
