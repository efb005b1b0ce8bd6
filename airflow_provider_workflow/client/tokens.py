"""
Access tokens: cached per process until they expire, requested and renewed by one caller at a time.

For the tokens of a user see ``user_tokens.py``.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from copy import copy
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from airflow_provider_workflow import clock
from airflow_provider_workflow.client import api, user_tokens
from airflow_provider_workflow.client.call import Send
from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    ConfigurationError,
    LoginRequiredError,
    RateLimitError,
    ServerError,
    TransportError,
    WorkflowError,
)
from airflow_provider_workflow.client.settings import APP_GRANT, USER_GRANT, Settings
from airflow_provider_workflow.client.user_tokens import Renewer, UserTokens

RENEW_AGAIN_SECONDS = 30.0
"""Time between early renewals if one failed, so that not every call waits for an endpoint that is down."""

Renewal = Future[None]


class Key(NamedTuple):
    """
    Identifies a token.

    :param secret: digest of the client secret.
    :param user: id of the connection if it is a user's token; "" for a token of the application.
    """

    token_url: str
    client_id: str
    grant: str
    scope: str
    secret: str
    user: str


def is_users(settings: Settings, scope: str) -> bool:
    """Whether a user's token has this scope; promotions use the application's token (docs/service.md 14)."""
    return settings.grant == USER_GRANT and scope == settings.scope


def token_key(settings: Settings, scope: str) -> Key:
    """The cache key of a token; it has a digest of the client secret."""
    secret = hashlib.sha256(settings.client_secret.encode()).hexdigest()
    grant, user = APP_GRANT, ""
    if is_users(settings, scope):
        grant, user = USER_GRANT, settings.connection_id
    return Key(settings.token_url, settings.client_id, grant, scope, secret, user)


@dataclass(frozen=True)
class AccessToken:
    """
    An access token and its times, by ``clock.monotonic``.

    :param renew_at: from this time on it is renewed before use.
    :param expires_at: from this time on the service rejects it.
    :param issued: whether this process requested it; otherwise it is from the store of user tokens.
    """

    value: str = field(repr=False)
    renew_at: float
    expires_at: float
    issued: bool = True


def token_of_user(tokens: UserTokens, *, issued: bool) -> AccessToken:
    """
    A user's access token.

    :param issued: whether it is the answer to a request of this process.
    """
    # Processes share the times of user tokens as epoch seconds.
    ahead = clock.monotonic() - clock.now()
    return AccessToken(tokens.access_token, tokens.renew_at + ahead, tokens.expires_at + ahead, issued)


class TokenCache:
    """The tokens of this process. Each is renewed by one caller at a time; the others wait."""

    def __init__(self) -> None:
        self._tokens: dict[Key, AccessToken] = {}
        self.rejected: defaultdict[tuple[str, str], dict[str, str]] = defaultdict(dict)
        """By token URL and client ID: tokens that this process does not send again, and why."""
        self._renewals: dict[Key, Renewal] = {}
        self._lock = threading.Lock()

    def usable(self, key: Key) -> AccessToken | None:
        """The cached token, if it has not expired."""
        token = self._tokens.get(key)
        return token if token is not None and clock.monotonic() < token.expires_at else None

    def put(self, key: Key, token: AccessToken) -> AccessToken:
        """Cache a token, and return it."""
        self._tokens[key] = token
        return token

    def join(self, key: Key) -> tuple[Renewal, bool]:
        """The current renewal of this token, and whether the caller must perform it."""
        with self._lock:
            renewal = self._renewals.get(key)
            if renewal is not None:
                return renewal, False
            self._renewals[key] = renewal = Future()
            # A waiter that is cancelled must not cancel the future for the others.
            renewal.set_running_or_notify_cancel()
            return renewal, True

    def leave(self, key: Key, renewal: Renewal, error: Exception | None) -> None:
        """End a renewal: the waiting callers use the new token, or get the error."""
        with self._lock:
            self._renewals.pop(key, None)
        if error is None:
            renewal.set_result(None)
        else:
            renewal.set_exception(error)

    def postpone(self, key: Key) -> AccessToken | None:
        """The cached token, if it has not expired, with its renewal postponed; otherwise None."""
        token = self.usable(key)
        if token is None:
            return None
        return self.put(key, replace(token, renew_at=clock.monotonic() + RENEW_AGAIN_SECONDS))

    def drop(self, key: Key, value: str) -> None:
        """Remove a token that the service rejected, unless it was renewed meanwhile."""
        with self._lock:
            cached = self._tokens.get(key)
            if cached is not None and cached.value == value:
                del self._tokens[key]
                if key.grant == USER_GRANT:
                    reason = "the service rejected it before it expired"
                    self.rejected[key.token_url, key.client_id][value] = reason

    def forget(self, key: Key) -> None:
        """Remove a token, as the user has logged in again."""
        self._tokens.pop(key, None)

    def forget_renewals(self) -> None:
        """In a forked child: drop the renewals, which the parent performs and which never end here."""
        self._lock = threading.Lock()
        self._renewals = {}


TOKENS = TokenCache()
"""The cache that all clients of this process share."""

os.register_at_fork(after_in_child=TOKENS.forget_renewals)


async def access_token(
    cache: TokenCache,
    key: Key,
    obtain: Callable[[], Awaitable[AccessToken]],
    wait: Callable[[Renewal], Awaitable[None]],
) -> AccessToken:
    """
    The access token of a key, from the cache if it is not due for renewal.

    While the token endpoint or the store of user tokens is unavailable, a token is used until it expires.

    :param obtain: requests the token, or reads it, and caches it; one caller at a time does so.
    :param wait: waits for another caller's renewal; raises its error, or ``TimeoutError``.
    """
    while True:
        token = cache.usable(key)
        if token is not None and clock.monotonic() < token.renew_at:
            return token
        renewal, is_mine = cache.join(key)
        if not is_mine:
            try:
                await wait(renewal)
            except AuthenticationError as rejection:
                # Each caller adds its own connection.
                raise copy(rejection) from None
            except TimeoutError:
                text = "the access token is still being renewed"
                raise TransportError(text, sent=False, timed_out=True) from None
            continue
        error: Exception | None = None
        try:
            return await obtain()
        except WorkflowError as fault:
            is_away = isinstance(fault, (TransportError, ServerError, RateLimitError))
            if is_away and (token := cache.postpone(key)) is not None:
                return token
            error = fault
            raise
        finally:
            cache.leave(key, renewal, error)


async def app_access_token(cache: TokenCache, key: Key, send: Send) -> AccessToken:
    """A new access token of the application, which is cached."""
    asked_at = clock.monotonic()
    answer = await send(api.app_token(key.scope))
    # The lifetime is counted from the request.
    return cache.put(key, AccessToken(*api.token_of(answer, asked_at)))


async def user_access_token(cache: TokenCache, key: Key, renewer: Renewer | None) -> AccessToken:
    """
    An access token of the connection's user (``key.user``), from the store if it is not due for renewal.

    :raises ConfigurationError: there is no store.
    :raises LoginRequiredError: the user must log in again.
    """
    if renewer is None:
        raise ConfigurationError(["the grant refresh_token needs a store of user tokens"])
    stored = await renewer.read()
    if stored is None:
        # Airflow returns None while its API is unavailable: a token is used until it expires.
        if (token := cache.postpone(key)) is not None:
            return token
        raise LoginRequiredError(key.user, user_tokens.NONE_STORED)
    place = key.token_url, key.client_id
    if clock.now() < stored.expires_at and stored.access_token not in cache.rejected[place]:
        # If it is due, the caller still uses it while the token endpoint is unavailable.
        token = cache.put(key, token_of_user(stored, issued=False))
        if clock.now() < stored.renew_at:
            return token
    if (reason := cache.rejected[place].get(stored.refresh_token)) is not None:
        raise LoginRequiredError(key.user, reason)
    renewed, issued = await renewer.renew(stored, key.user, cache.rejected[place].__setitem__)
    return cache.put(key, token_of_user(renewed, issued=issued))
