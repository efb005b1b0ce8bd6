"""
Access tokens: kept by each process while they last, obtained and renewed by one caller at a time.

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
- A refresh that was refused for the time being (429, 5xx), or never sent, used nothing up.
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

from airflow_provider_workflow import clock
from airflow_provider_workflow.client import api, types
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
"""For an answer that promises more than anybody keeps."""
ASSUMED_LIFETIME_SECONDS = 3600.0
"""For an answer without ``expires_in`` (docs/service.md 9)."""


def access_token_of(answer: types.Token) -> str:
    """
    The access token of an answer.

    :raises AuthenticationError: the answer holds none that can be sent.
    """
    value = answer.get("access_token") if isinstance(answer, dict) else None
    if not (isinstance(value, str) and value and value.isascii() and value.isprintable()):
        raise AuthenticationError("the token endpoint answered without a usable access_token", status=200)
    return value


def times_of(answer: types.Token, asked_at: float) -> tuple[float, float]:
    """
    From when on a token is renewed before it is used, and from when on the service refuses it.

    :param asked_at: when it was asked for; its life counts from there.
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
    A user's tokens of an answer of the token endpoint.

    :param asked_at: when they were asked for, in seconds since 1970.
    :param refresh_token: goes on where the answer holds none (RFC 6749, section 6).
    :raises AuthenticationError: the answer lacks a token.
    """
    access_token = access_token_of(answer)
    given = answer.get("refresh_token") or refresh_token
    if not (isinstance(given, str) and given):
        raise AuthenticationError("the token endpoint answered without a refresh_token", status=200)
    return UserTokens(access_token, given, *times_of(answer, asked_at))


RENEW_AGAIN_SECONDS = 30.0
"""After an early renewal that failed: not every call is to wait for an endpoint that is down."""

Renewal = Future[None]


class Key(NamedTuple):
    """
    What tells one token from another.

    :param secret: digest of the client secret.
    :param user: the connection whose user's it is; "" for a token of the application.
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
    An access token and its times, in the seconds of ``clock.monotonic``.

    :param renew_at: from here on it is renewed before it is used.
    :param expires_at: from here on the service refuses it.
    :param issued: whether this process had it issued; otherwise the store of user tokens held it.
    """

    value: str = field(repr=False)
    renew_at: float
    expires_at: float
    issued: bool = True


class TokenCache:
    """Tokens of this process. Each is renewed by one caller at a time; the others wait for it."""

    def __init__(self) -> None:
        self._tokens: dict[Key, CachedToken] = {}
        self._refused: dict[Key, str] = {}
        self._sound: dict[Key, str] = {}
        self._spent: dict[Key, tuple[str, str]] = {}
        self._renewals: dict[Key, Renewal] = {}
        self._lock = threading.Lock()

    def usable(self, key: Key) -> CachedToken | None:
        """The cached token, if the service still takes it."""
        token = self._tokens.get(key)
        return token if token is not None and clock.monotonic() < token.expires_at else None

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

        :param asked_at: when it was asked for, by ``clock.monotonic``; its life counts from there.
        :raises AuthenticationError: the answer holds no token.
        """
        value = access_token_of(answer)
        self._tokens[key] = CachedToken(value, *times_of(answer, asked_at))
        return value

    def adopt(self, key: Key, tokens: UserTokens, *, issued: bool) -> str:
        """
        Take up a user's access token.

        :param issued: whether it is the answer to this process's own request.
        """
        # Processes tell each other by the time of the day when user tokens end.
        ahead = clock.monotonic() - clock.now()
        times = (tokens.renew_at + ahead, tokens.expires_at + ahead)
        self._tokens[key] = CachedToken(tokens.access_token, *times, issued)
        return tokens.access_token

    def postpone(self, key: Key) -> str | None:
        """Use the token on, if the service still takes it, and leave its renewal alone for a while."""
        token = self.usable(key)
        if token is None:
            return None
        self._tokens[key] = replace(token, renew_at=clock.monotonic() + RENEW_AGAIN_SECONDS)
        return token.value

    def drop(self, key: Key, value: str) -> None:
        """Forget a token that the service refused, unless it was renewed in the meantime."""
        with self._lock:
            cached = self._tokens.get(key)
            if cached is not None and cached.value == value:
                del self._tokens[key]
                self._refused[key] = value

    def was_refused(self, key: Key, value: str) -> bool:
        """Whether the service refused this token before its time: the store may still hold it."""
        return self._refused.get(key) == value

    def mark_accepted(self, key: Key, value: str) -> None:
        """Note that a token was refused though it was new: another one would be refused as well."""
        self._sound[key] = value

    def is_sound(self, key: Key, value: str) -> bool:
        """Whether ``mark_accepted`` was told of this token."""
        return self._sound.get(key) == value

    def spend(self, key: Key, refresh_token: str, reason: str) -> None:
        """Note a refresh token that is, or may be, used up: this process never sends it again."""
        self._spent[key] = (refresh_token, reason)

    def why_spent(self, key: Key, refresh_token: str) -> str | None:
        """The reason that ``spend`` was given for this refresh token, or None."""
        spent, reason = self._spent.get(key, ("", None))
        return reason if spent == refresh_token else None

    def forget(self, key: Key) -> None:
        """Forget a token: the user has logged in anew."""
        self._tokens.pop(key, None)

    def forget_renewals(self) -> None:
        """In a forked child: whoever was renewing lives in the parent and will never tell this one."""
        self._lock = threading.Lock()
        self._renewals = {}


TOKENS = TokenCache()
"""The cache that all clients of this process share."""

os.register_at_fork(after_in_child=TOKENS.forget_renewals)

READ_AGAIN_SECONDS = (0.25, 0.25, 0.5, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0)
"""Pauses of one that waits for another's tokens: 10 s in all."""
WRITE_AGAIN_SECONDS = (0.0, 1.0, 2.0)
"""Pauses before each attempt to store tokens that exist nowhere else."""

NONE_STORED = "none are stored, as far as Airflow gives them out just now"
LOST = "the refresh token may be used up, and the answer that held the next one was lost"
REFUSED = "the service does not take the refresh token any more, and nobody stored a newer one"
NOT_STORED = "the refresh token is used up, and the next one could not be stored"


def is_users(settings: Settings, scope: str) -> bool:
    """Whether a token of this scope is the user's; promotions need the application's (docs/service.md 14)."""
    return settings.grant == USER_GRANT and scope == settings.scope


def token_key(settings: Settings, scope: str) -> Key:
    """What tells one token from another; the secret itself is no part of it."""
    secret = _digest(settings.client_secret)
    grant, user = (USER_GRANT, settings.connection_id) if is_users(settings, scope) else (APP_GRANT, "")
    return Key(settings.token_url, settings.client_id, grant, scope, secret, user)


@lru_cache(maxsize=64)
def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def access_token(cache: TokenCache, key: Key) -> Generator[Any, Any, str]:
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
        except WorkflowError as fault:
            is_away = isinstance(fault, (TransportError, ServerError, RateLimitError))
            if is_away and (kept := cache.postpone(key)) is not None:
                return kept
            error = fault
            raise
        finally:
            cache.leave(key, renewal, error)


Exchange = Generator[Any, Any, tuple[UserTokens, bool]]
"""Ends with tokens, and whether they are the answer to this process's own request."""


def user_token(cache: TokenCache, key: Key) -> Generator[Any, Any, str]:
    """
    An access token of the connection's user (``key.user``), from the store where it is fresh there.

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
        fresh = user_tokens_of(answer, asked_at, stored.refresh_token)
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
