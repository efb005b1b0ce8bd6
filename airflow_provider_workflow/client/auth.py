"""
Access tokens: the cache, and the exchange that sends a call with one (specification 5).

The exchanges are generators over steps; a sender performs each step in its own way (see
``conversation.py``), so renewal is written once for tasks and triggers.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_workflow.client import api, types
from airflow_provider_workflow.client.call import Call
from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    RateLimitError,
    ServerError,
    TransportError,
    WorkflowError,
)
from airflow_provider_workflow.client.settings import Settings

RENEW_EARLY_SECONDS = 300.0
RENEW_AGAIN_SECONDS = 30.0
"""After an early renewal that failed: not every call is to wait for an endpoint that is down."""
LONGEST_LIFETIME_SECONDS = 30 * 86400.0
"""For an answer that promises more than anybody keeps."""
ASSUMED_LIFETIME_SECONDS = 3600.0
"""For an answer without ``expires_in`` (service facts 9)."""

Renewal = Future[None]
TokenStep = Call[types.Token] | Renewal
Key = tuple[str, ...]


@dataclass(frozen=True)
class CachedToken:
    """
    An access token and its times, by the cache's clock.

    :param renew_at: from here on it is renewed before it is used.
    :param expires_at: from here on the service refuses it.
    """

    value: str
    renew_at: float
    expires_at: float


class TokenCache:
    """
    Tokens of this process. Each is renewed by one caller at a time; the others wait for it.

    :param clock: seconds that only go forward.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._tokens: dict[Key, CachedToken] = {}
        self._renewals: dict[Key, Renewal] = {}
        self._lock = threading.Lock()

    def usable(self, key: Key) -> CachedToken | None:
        """The cached token, if the service still takes it."""
        token = self._tokens.get(key)
        return token if token is not None and self.clock() < token.expires_at else None

    def join(self, key: Key) -> tuple[Renewal, bool]:
        """The renewal under way for this token, and whether it is the caller's to carry out."""
        with self._lock:
            renewal = self._renewals.get(key)
            if renewal is not None:
                return renewal, False
            self._renewals[key] = renewal = Future()
            # From here on a waiter that is cancelled cannot cancel what the others wait for.
            renewal.set_running_or_notify_cancel()
            return renewal, True

    def leave(self, key: Key, renewal: Renewal, error: Exception | None) -> None:
        """End a renewal: those who wait go on with its token, or fail as it failed."""
        with self._lock:
            self._renewals.pop(key, None)
        if error is None:
            renewal.set_result(None)
        else:
            renewal.set_exception(error)

    def keep(self, key: Key, answer: types.Token, asked_at: float) -> str:
        """
        Keep the token of an answer.

        :param asked_at: when it was asked for, by the cache's clock; its life counts from there.
        :raises AuthenticationError: the answer holds no token.
        """
        value = answer.get("access_token") if isinstance(answer, dict) else None
        if not (isinstance(value, str) and value and value.isascii() and value.isprintable()):
            raise AuthenticationError("the token endpoint answered without a usable access_token", status=200)
        life = _lifetime(answer)
        early = min(RENEW_EARLY_SECONDS, life / 2)
        self._tokens[key] = CachedToken(value, asked_at + life - early, asked_at + life)
        return value

    def postpone(self, key: Key) -> str | None:
        """Use the token on, if the service still takes it, and leave its renewal alone for a while."""
        token = self.usable(key)
        if token is None:
            return None
        self._tokens[key] = replace(token, renew_at=self.clock() + RENEW_AGAIN_SECONDS)
        return token.value

    def drop(self, key: Key, value: str) -> None:
        """Forget a token that the service refused, unless it was renewed in the meantime."""
        with self._lock:
            cached = self._tokens.get(key)
            if cached is not None and cached.value == value:
                del self._tokens[key]

    def forget_renewals(self) -> None:
        """In a forked child: whoever was renewing lives in the parent and will never tell this one."""
        self._lock = threading.Lock()
        self._renewals = {}


TOKENS = TokenCache()
"""The cache that all clients of this process share."""

os.register_at_fork(after_in_child=TOKENS.forget_renewals)


def token_key(settings: Settings, scope: str) -> Key:
    """What tells one token from another; the secret itself is no part of it."""
    secret = hashlib.sha256(settings.client_secret.encode()).hexdigest()
    user = settings.connection_id if settings.grant == "refresh_token" else ""
    return (settings.token_url, settings.client_id, settings.grant, scope, secret, user)


def access_token(
    cache: TokenCache, settings: Settings, scope: str
) -> Generator[TokenStep, types.Token | None, str]:
    """
    A token for this scope, from the cache where it is fresh.

    Yields the token call to send, or another caller's renewal to wait for. A token that is due but
    not yet expired is used on while the token endpoint is out of reach.
    """
    key = token_key(settings, scope)
    while True:
        token = cache.usable(key)
        if token is not None and cache.clock() < token.renew_at:
            return token.value
        renewal, mine = cache.join(key)
        if not mine:
            yield renewal
            continue
        error: Exception | None = None
        try:
            asked_at = cache.clock()
            answer = yield api.app_token(scope)
            return cache.keep(key, answer or {}, asked_at)
        except (TransportError, ServerError, RateLimitError) as fault:
            if (value := cache.postpone(key)) is not None:
                return value
            error = fault
            raise
        except WorkflowError as fault:
            error = fault
            raise
        finally:
            cache.leave(key, renewal, error)


def _lifetime(answer: types.Token) -> float:
    given: Any = answer.get("expires_in")
    if isinstance(given, str):
        try:
            given = float(given)
        except ValueError:
            given = None
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not given > 0:
        return ASSUMED_LIFETIME_SECONDS
    return float(min(given, LONGEST_LIFETIME_SECONDS))
