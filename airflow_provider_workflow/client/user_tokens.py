"""
User tokens: how they are renewed while others renew them too (docs/service.md 14.3).

A refresh token is used up by the refresh, whose answer holds the next one; so the tokens lie in a
store that the processes of all workers share. The store knows neither locks nor compare-and-set:

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

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_workflow import clock
from airflow_provider_workflow.client import api, types
from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    LoginRequiredError,
    TokenStoreError,
    TransportError,
    WorkflowError,
)
from airflow_provider_workflow.client.steps import Pause, ReadTokens, WriteTokens
from airflow_provider_workflow.client.tokens import access_token_of, times_of

if TYPE_CHECKING:
    from airflow_provider_workflow.client.tokens import Key, TokenCache

READ_AGAIN_SECONDS = (0.25, 0.25, 0.5, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0)
"""Pauses of one that waits for another's tokens: 10 s in all."""
WRITE_AGAIN_SECONDS = (0.0, 1.0, 2.0)
"""Pauses before each attempt to store tokens that exist nowhere else."""

NONE_STORED = "none are stored, as far as Airflow gives them out just now"
LOST = "the refresh token may be used up, and the answer that held the next one was lost"
REFUSED = "the service does not take the refresh token any more, and nobody stored a newer one"
NOT_STORED = "the refresh token is used up, and the next one could not be stored"


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

    Both raise ``TokenStoreError`` where the store is out of reach.
    """

    def read(self) -> UserTokens | None:
        """
        The tokens that were written last; None where there are none.

        :raises LoginRequiredError: there is something that cannot be read.
        """

    def write(self, tokens: UserTokens) -> None:
        """Replace the tokens; they are kept once this returns."""


Exchange = Generator[Any, Any, tuple[UserTokens, bool]]
"""Ends with tokens, and whether they are the answer to this process's own request."""


def user_token(cache: TokenCache, connection_id: str, key: Key) -> Generator[Any, Any, str]:
    """
    An access token of the connection's user, from the store where it is fresh there.

    :param cache: of the process; tells which token the service refused, and takes the new one.
    :param key: of the token in the cache.
    :raises LoginRequiredError: there is no way on without the user.
    """
    stored: UserTokens | None = yield ReadTokens()
    if stored is None:
        # Airflow answers in the same way while its API is away, so a token that still holds is used on.
        if (value := cache.postpone(key)) is not None:
            return value
        raise LoginRequiredError(connection_id, NONE_STORED)
    if clock.now() < stored.expires_at and not cache.was_refused(key, stored.access_token):
        # Where it is due, this is what the caller goes on with while the token endpoint is away.
        cache.adopt(key, stored, issued=False)
        if clock.now() < stored.renew_at:
            return stored.access_token
    if (reason := cache.why_spent(key, stored.refresh_token)) is not None:
        raise LoginRequiredError(connection_id, reason)
    renewed, issued = yield from _renew(cache, connection_id, key, stored)
    return cache.adopt(key, renewed, issued=issued)


def _renew(cache: TokenCache, connection_id: str, key: Key, stored: UserTokens) -> Exchange:
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
            raise LoginRequiredError(connection_id, reason) from fault
        return newer, False
    if fresh.refresh_token != stored.refresh_token:
        cache.spend(key, stored.refresh_token, NOT_STORED)
    return (yield from _keep_safe(fresh, stored, connection_id))


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
            found: UserTokens | None = yield ReadTokens()
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
            found: UserTokens | None = yield ReadTokens()
            if found is not None and found.access_token != stored.access_token:
                return found, found == fresh
            yield WriteTokens(fresh)
            return fresh, True
        except TokenStoreError as error:
            fault = error
    raise LoginRequiredError(connection_id, NOT_STORED) from fault
