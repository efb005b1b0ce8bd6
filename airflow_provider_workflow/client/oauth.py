"""
The token that a call is sent with: whose it is, and how it is renewed (docs/service.md 14).

Each exchange here is a generator over steps (see ``attempt.py``), so renewal is written once for tasks
and triggers.

User tokens are renewed while other processes renew them too (docs/service.md 14.3). A refresh token is
used up by the refresh, whose answer holds the next one; so the tokens are kept in a store that the
processes of all workers share. The store knows neither locks nor compare-and-set:

- Whoever finds the stored access token due sends the refresh token, once, and stores the answer
  before anybody uses it.
- Of two that do so at the same time the service refuses one. That one reads the store until the
  other's tokens are there, 10 s at most, and goes on with them.
- Where no answer came, the refresh token may be used up and nobody knows the next one. It is not
  sent again by this process; unless another process stores newer tokens within 10 s, the user has to
  log in again. The same holds where a process dies between the answer and the store: the next to
  renew meets the refusal, waits 10 s, and says so.

A refresh that the service refused for the time being (429, 5xx) or that never reached it used
nothing up; the next call may send the same refresh token.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from functools import lru_cache
from typing import Any

from airflow_provider_workflow import clock
from airflow_provider_workflow.client import api, types
from airflow_provider_workflow.client.call import Call, CarryThrough, Pause, UseStore
from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    LoginRequiredError,
    RateLimitError,
    ServerError,
    TokenStoreError,
    TransportError,
    WorkflowError,
)
from airflow_provider_workflow.client.settings import APP_GRANT, USER_GRANT, Settings
from airflow_provider_workflow.client.tokens import Key, Renewal, TokenCache, UserTokens

READ_AGAIN_SECONDS = (0.25, 0.25, 0.5, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0)
"""Pauses of one that waits for another's tokens: 10 s in all."""
WRITE_AGAIN_SECONDS = (0.0, 1.0, 2.0)
"""Pauses before each attempt to store tokens that exist nowhere else."""

NONE_STORED = "none are stored, as far as Airflow gives them out just now"
LOST = "the refresh token may be used up, and the answer that held the next one was lost"
REFUSED = "the service does not take the refresh token any more, and nobody stored a newer one"
NOT_STORED = "the refresh token is used up, and the next one could not be stored"

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
    or the store of user tokens is unreachable.
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
                value: str = yield CarryThrough(user_token(cache, key))
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


Exchange = Generator[Any, Any, tuple[UserTokens, bool]]
"""Ends with tokens, and whether they are the answer to this process's own request."""


def user_token(cache: TokenCache, key: Key) -> Generator[Any, Any, str]:
    """
    An access token of the connection's user (``key.user``), from the store where it is fresh there.

    :param cache: of the process; tells which token the service refused, and takes the new one.
    :param key: of the token in the cache.
    :raises LoginRequiredError: there is no way on without the user.
    """
    stored: UserTokens | None = yield UseStore()
    if stored is None:
        # Airflow answers in the same way while its API is away, so a token that still holds is used on.
        if (value := cache.postpone(key)) is not None:
            return value
        raise LoginRequiredError(key.user, NONE_STORED)
    if clock.now() < stored.expires_at and not cache.was_refused(key, stored.access_token):
        # Where it is due, this is what the caller goes on with while the token endpoint is away.
        cache.adopt(key, stored, issued=False)
        if clock.now() < stored.renew_at:
            return stored.access_token
    if (reason := cache.why_spent(key, stored.refresh_token)) is not None:
        raise LoginRequiredError(key.user, reason)
    renewed, issued = yield from _renew(cache, key, stored)
    return cache.adopt(key, renewed, issued=issued)


def _renew(cache: TokenCache, key: Key, stored: UserTokens) -> Exchange:
    asked_at = clock.now()
    try:
        answer = yield api.refresh_user_token(stored.refresh_token)
        fresh = UserTokens.of(answer, asked_at, stored.refresh_token)
    except WorkflowError as fault:
        reason = _used_up(fault)
        if reason is None:
            raise
        cache.spend(key, stored.refresh_token, reason)
        newer = yield from _newer(stored)
        if newer is None:
            raise LoginRequiredError(key.user, reason) from fault
        return newer, False
    if fresh.refresh_token != stored.refresh_token:
        cache.spend(key, stored.refresh_token, NOT_STORED)
    return (yield from _keep_safe(fresh, stored, key.user))


def _used_up(fault: WorkflowError) -> str | None:
    """Why a refresh token is of no use after this fault; None where it still is."""
    if isinstance(fault, TransportError):
        return LOST if fault.sent else None
    if isinstance(fault, AuthenticationError):
        if fault.status == 200:
            return LOST
        if fault.code == "invalid_grant" or (fault.status == 400 and fault.code is None):
            return REFUSED
    return None


def _newer(stored: UserTokens) -> Generator[Any, Any, UserTokens | None]:
    """Tokens that another process stores within 10 s."""
    for seconds in READ_AGAIN_SECONDS:
        yield Pause(seconds)
        try:
            found: UserTokens | None = yield UseStore()
        except TokenStoreError:
            continue
        if found is not None and found.access_token != stored.access_token:
            return found
    return None


def _keep_safe(fresh: UserTokens, stored: UserTokens, connection_id: str) -> Exchange:
    """
    Store new tokens before anybody uses them; what was stored in the meantime is not overwritten.

    Somebody may have logged in; or an attempt that seemed to fail succeeded, and others renewed since.
    """
    for seconds in WRITE_AGAIN_SECONDS:
        if seconds:
            yield Pause(seconds)
        try:
            found: UserTokens | None = yield UseStore()
            if found is not None and found.access_token != stored.access_token:
                return found, found == fresh
            yield UseStore(write=fresh)
            return fresh, True
        except TokenStoreError as error:
            fault = error
    raise LoginRequiredError(connection_id, NOT_STORED) from fault
