"""Tokens, and the cache of this process: each is kept while it lasts, and renewed by one caller at a time."""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from airflow_provider_workflow import clock
from airflow_provider_workflow.client import types
from airflow_provider_workflow.client.errors import AuthenticationError

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


@dataclass(frozen=True)
class UserTokens:
    """
    A user's tokens, with times in seconds since 1970 as several machines read them.

    :param access_token: sent with each request.
    :param refresh_token: used up by the next refresh.
    :param renew_at: from here on they are renewed before they are used.
    :param expires_at: from here on the service refuses the access token.
    """

    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    renew_at: float
    expires_at: float

    @classmethod
    def of(cls, answer: types.Token, asked_at: float, refresh_token: str = "") -> UserTokens:
        """
        The tokens of an answer of the token endpoint.

        :param asked_at: when they were asked for, in seconds since 1970.
        :param refresh_token: goes on where the answer holds none (RFC 6749, section 6).
        :raises AuthenticationError: the answer lacks a token.
        """
        access_token = access_token_of(answer)
        given = answer.get("refresh_token") or refresh_token
        if not (isinstance(given, str) and given):
            raise AuthenticationError("the token endpoint answered without a refresh_token", status=200)
        return cls(access_token, given, *times_of(answer, asked_at))


class TokenStore(Protocol):
    """
    Where a connection's user tokens are kept, for all processes; its methods may block.

    Both raise ``TokenStoreError`` where the store is unreachable.
    """

    def read(self) -> UserTokens | None:
        """
        The tokens that were written last; None where there are none.

        :raises LoginRequiredError: there is something that cannot be read.
        """

    def write(self, tokens: UserTokens) -> None:
        """Replace the tokens; they are kept once this returns."""


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

    def note_sound(self, key: Key, value: str) -> None:
        """Note that a token was refused though it was new: another one would be refused as well."""
        self._sound[key] = value

    def is_sound(self, key: Key, value: str) -> bool:
        """Whether ``note_sound`` was told of this token."""
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
