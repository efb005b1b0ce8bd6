"""
Access tokens: cached per process until they expire, requested and renewed by one caller at a time.

Several processes renew user tokens concurrently (docs/service.md 14.3). A refresh invalidates the refresh
token and returns a new one, so the tokens are in a store that the processes of all workers share. The store
has neither locks nor compare-and-set:

- A process that finds the stored access token due sends the refresh token, once, and stores the answer
  before the new tokens are used.
- If two processes do so at the same time, the service rejects one of them. That process reads the store
  until the other's tokens are there, for at most 10 s, and uses them.
- If there is no answer, the refresh token may be invalid and the new one is lost. This process does not send
  the old one again; unless another process stores newer tokens within 10 s, the user must log in again. The
  same applies if a process dies before it stores the answer: the next renewal fails after these 10 s.
- A refresh that failed temporarily (429, 5xx) or was not sent does not invalidate the refresh token.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Generator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

from airflow_provider_workflow import clock, types
from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.call import CarryThrough, Pause, UserTokens, UseStore
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

RENEW_EARLY_SECONDS = 300.0
LONGEST_LIFETIME_SECONDS = 30 * 86400.0
"""Maximum that is assumed, whatever ``expires_in`` says."""
ASSUMED_LIFETIME_SECONDS = 3600.0
"""For an answer without ``expires_in`` (docs/service.md 9)."""


def access_token_of(answer: types.Token) -> str:
    """
    The access token of an answer.

    :raises AuthenticationError: it is missing or cannot be sent in a header.
    """
    value = answer.get("access_token") if isinstance(answer, dict) else None
    if not (isinstance(value, str) and value and value.isascii() and value.isprintable()):
        raise AuthenticationError("the token endpoint answered without a usable access_token", status=200)
    return value


def times_of(answer: types.Token, asked_at: float) -> tuple[float, float]:
    """
    The times from which a token is renewed before use, and from which the service rejects it.

    :param asked_at: time of the request, from which its lifetime is counted.
    """
    life = _lifetime(answer)
    return asked_at + life - min(RENEW_EARLY_SECONDS, life / 2), asked_at + life


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


def user_tokens_of(answer: types.Token, asked_at: float, refresh_token: str = "") -> UserTokens:
    """
    A user's tokens from an answer of the token endpoint.

    :param asked_at: time of the request, in seconds since 1970.
    :param refresh_token: kept if the answer has none (RFC 6749, section 6).
    :raises AuthenticationError: a token is missing.
    """
    access_token = access_token_of(answer)
    given = answer.get("refresh_token") or refresh_token
    if not (isinstance(given, str) and given):
        raise AuthenticationError("the token endpoint answered without a refresh_token", status=200)
    return UserTokens(access_token, given, *times_of(answer, asked_at))


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


@dataclass(frozen=True)
class CachedToken:
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


class TokenCache:
    """The tokens of this process. Each is renewed by one caller at a time; the others wait."""

    def __init__(self) -> None:
        self._tokens: dict[Key, CachedToken] = {}
        self._refused: dict[Key, str] = {}
        self._sound: dict[Key, str] = {}
        self._spent: dict[Key, tuple[str, str]] = {}
        self._renewals: dict[Key, Renewal] = {}
        self._lock = threading.Lock()

    def usable(self, key: Key) -> CachedToken | None:
        """The cached token, if it has not expired."""
        token = self._tokens.get(key)
        return token if token is not None and clock.monotonic() < token.expires_at else None

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

    def keep(self, key: Key, answer: types.Token, asked_at: float) -> str:
        """
        Cache the token of an answer.

        :param asked_at: time of the request, by ``clock.monotonic``; the lifetime is counted from it.
        :raises AuthenticationError: the answer has no token.
        """
        value = access_token_of(answer)
        self._tokens[key] = CachedToken(value, *times_of(answer, asked_at))
        return value

    def adopt(self, key: Key, tokens: UserTokens, *, issued: bool) -> str:
        """
        Cache a user's access token.

        :param issued: whether it is the answer to a request of this process.
        """
        # Processes share the times of user tokens as epoch seconds.
        ahead = clock.monotonic() - clock.now()
        times = (tokens.renew_at + ahead, tokens.expires_at + ahead)
        self._tokens[key] = CachedToken(tokens.access_token, *times, issued)
        return tokens.access_token

    def postpone(self, key: Key) -> str | None:
        """The cached token, if it has not expired, with its renewal postponed; otherwise None."""
        token = self.usable(key)
        if token is None:
            return None
        self._tokens[key] = replace(token, renew_at=clock.monotonic() + RENEW_AGAIN_SECONDS)
        return token.value

    def drop(self, key: Key, value: str) -> None:
        """Remove a token that the service rejected, unless it was renewed meanwhile."""
        with self._lock:
            cached = self._tokens.get(key)
            if cached is not None and cached.value == value:
                del self._tokens[key]
                self._refused[key] = value

    def was_refused(self, key: Key, value: str) -> bool:
        """Whether the service rejected this token before it expired: the store may still have it."""
        return self._refused.get(key) == value

    def mark_accepted(self, key: Key, value: str) -> None:
        """Record that a new token was rejected, so another new one would be rejected as well."""
        self._sound[key] = value

    def is_sound(self, key: Key, value: str) -> bool:
        """Whether ``mark_accepted`` recorded this token."""
        return self._sound.get(key) == value

    def spend(self, key: Key, refresh_token: str, reason: str) -> None:
        """Record a refresh token that is, or may be, invalid: this process does not send it again."""
        self._spent[key] = (refresh_token, reason)

    def why_spent(self, key: Key, refresh_token: str) -> str | None:
        """The reason that ``spend`` recorded for this refresh token, or None."""
        spent, reason = self._spent.get(key, ("", None))
        return reason if spent == refresh_token else None

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

READ_AGAIN_SECONDS = (0.25, 0.25, 0.5, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0)
"""Pauses between reads while waiting for another process's tokens: 10 s in total."""
WRITE_AGAIN_SECONDS = (0.0, 1.0, 2.0)
"""Pauses before each attempt to store new tokens."""

NONE_STORED = "none are stored, or Airflow cannot read them at the moment"
LOST = "the refresh token may be invalid, and the answer with the new one was lost"
REFUSED = "the service no longer accepts the refresh token, and no process stored a newer one"
NOT_STORED = "the refresh token is invalid, and the new one could not be stored"


def is_users(settings: Settings, scope: str) -> bool:
    """Whether a user's token has this scope; promotions use the application's token (docs/service.md 14)."""
    return settings.grant == USER_GRANT and scope == settings.scope


def token_key(settings: Settings, scope: str) -> Key:
    """The cache key of a token; it has a digest of the client secret."""
    secret = _digest(settings.client_secret)
    grant, user = (USER_GRANT, settings.connection_id) if is_users(settings, scope) else (APP_GRANT, "")
    return Key(settings.token_url, settings.client_id, grant, scope, secret, user)


@lru_cache(maxsize=64)
def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def access_token(cache: TokenCache, key: Key) -> Generator[Any, Any, str]:
    """
    The access token of a key, from the cache if it is not due for renewal.

    Yields the token call, the exchange that renews a user's tokens, or another caller's renewal. While the
    token endpoint or the store of user tokens is unavailable, a token is used until it expires.
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
        except WorkflowError as fault:
            is_away = isinstance(fault, (TransportError, ServerError, RateLimitError))
            if is_away and (kept := cache.postpone(key)) is not None:
                return kept
            error = fault
            raise
        finally:
            cache.leave(key, renewal, error)


Exchange = Generator[Any, Any, tuple[UserTokens, bool]]
"""Returns tokens, and whether they are the answer to a request of this process."""


def user_token(cache: TokenCache, key: Key) -> Generator[Any, Any, str]:
    """
    An access token of the connection's user (``key.user``), from the store if it is not due for renewal.

    :raises LoginRequiredError: the user must log in again.
    """
    stored: UserTokens | None = yield UseStore()
    if stored is None:
        # Airflow also returns None while its API is unavailable, so a token is used until it expires.
        if (value := cache.postpone(key)) is not None:
            return value
        raise LoginRequiredError(key.user, NONE_STORED)
    if clock.now() < stored.expires_at and not cache.was_refused(key, stored.access_token):
        # If it is due, the caller still uses it while the token endpoint is unavailable.
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
        fresh = user_tokens_of(answer, asked_at, stored.refresh_token)
    except WorkflowError as fault:
        reason = _why_invalid(fault)
        if reason is None:
            raise
        cache.spend(key, stored.refresh_token, reason)
        newer = yield from _newer(stored)
        if newer is None:
            raise LoginRequiredError(key.user, reason) from fault
        return newer, False
    if fresh.refresh_token != stored.refresh_token:
        cache.spend(key, stored.refresh_token, NOT_STORED)
    return (yield from _store(fresh, stored, key.user))


def _why_invalid(fault: WorkflowError) -> str | None:
    """Why a refresh token is, or may be, invalid after this error; None if it is still valid."""
    if isinstance(fault, TransportError):
        return LOST if fault.sent else None
    if isinstance(fault, AuthenticationError):
        if fault.status == 200:
            return LOST
        if fault.code == "invalid_grant" or (fault.status == 400 and fault.code is None):
            return REFUSED
    return None


def _newer(stored: UserTokens) -> Generator[Any, Any, UserTokens | None]:
    """The tokens that another process stores within 10 s, or None."""
    for seconds in READ_AGAIN_SECONDS:
        yield Pause(seconds)
        try:
            found: UserTokens | None = yield UseStore()
        except TokenStoreError:
            continue
        if found is not None and found.access_token != stored.access_token:
            return found
    return None


def _store(fresh: UserTokens, stored: UserTokens, connection_id: str) -> Exchange:
    """
    Store new tokens before they are used, unless the store has changed meanwhile; then use the stored ones.

    A user may have logged in, or a write that raised may have succeeded and other processes renewed since.

    :raises LoginRequiredError: the tokens could not be stored.
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
