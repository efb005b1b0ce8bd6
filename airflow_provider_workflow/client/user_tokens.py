"""
Tokens of a user: renewed by several processes, which share a store (docs/service.md 14.3).

A refresh invalidates the refresh token and returns a new one. The store has no locks:

- A process that finds the stored access token due sends the refresh token once, and stores the answer
  before it is used.
- If two processes do so at a time, the service rejects one of them, which reads the store until the other's
  tokens are there, for at most 10 s.
- If there is no answer, or a process dies before it stores one, the user must log in again unless another
  process stores newer tokens within 10 s; the old refresh token is not sent again.
- A refresh that failed temporarily (429, 5xx) or was not sent does not invalidate the refresh token.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from airflow_provider_workflow import clock, types
from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.call import RunInThread, Send
from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    LoginRequiredError,
    TokenStoreError,
    TransportError,
    WorkflowError,
)

READ_AGAIN_SECONDS = (0.25, 0.25, 0.5, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0)
"""Pauses between reads while waiting for another process's tokens: 10 s in total."""
WRITE_AGAIN_SECONDS = (0.0, 1.0, 2.0)
"""Pauses before each attempt to store new tokens."""

NONE_STORED = "none are stored, or Airflow cannot read them at the moment"
LOST = "the refresh token may be invalid, and the answer with the new one was lost"
REFUSED = "the service no longer accepts the refresh token, and no process stored a newer one"
NOT_STORED = "the refresh token is invalid, and the new one could not be stored"


@dataclass(frozen=True)
class UserTokens:
    """
    A user's tokens. Times are in seconds since 1970, as several machines read them.

    :param access_token: sent with each request.
    :param refresh_token: invalid after the next refresh.
    :param renew_at: from this time on they are renewed before use.
    :param expires_at: from this time on the service rejects the access token.
    """

    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    renew_at: float
    expires_at: float


def user_tokens_of(answer: types.Token, asked_at: float, refresh_token: str = "") -> UserTokens:
    """
    A user's tokens from an answer of the token endpoint.

    :param asked_at: time of the request, in seconds since 1970.
    :param refresh_token: kept if the answer has none (RFC 6749, section 6).
    :raises AuthenticationError: a token is missing.
    """
    access_token, *times = api.token_of(answer, asked_at)
    renewal = answer.get("refresh_token") or refresh_token
    if not (isinstance(renewal, str) and renewal.strip() and renewal.isascii()):
        raise AuthenticationError("the token endpoint answered without a usable refresh_token", status=200)
    return UserTokens(access_token, renewal, *times)


class TokenStore(Protocol):
    """
    Stores a connection's user tokens for all processes; its methods may block.

    Both raise ``TokenStoreError`` if the store is unreachable.
    """

    def read(self) -> UserTokens | None:
        """
        The tokens that were written last; None if there are none.

        :raises LoginRequiredError: the stored value cannot be read.
        """

    def write(self, tokens: UserTokens) -> None:
        """Replace the tokens; they are stored when this returns."""


@dataclass(frozen=True)
class Renewer:
    """
    Reads and renews a user's tokens by the means of a client.

    :param store: their store.
    :param send: sends a call.
    :param sleep: waits for a number of seconds.
    :param in_thread: runs a method of the store.
    """

    store: TokenStore
    send: Send
    sleep: Callable[[float], Awaitable[None]]
    in_thread: RunInThread

    async def read(self) -> UserTokens | None:
        """
        The stored tokens; None if there are none.

        :raises TokenStoreError: the store is unreachable.
        """
        return await self.in_thread(self.store.read)

    async def renew(
        self, stored: UserTokens, connection_id: str, reject: Callable[[str, str], None]
    ) -> tuple[UserTokens, bool]:
        """
        Renew the stored tokens, or use those that another process stores meanwhile.

        :param reject: called with a refresh token that must not be sent again, and the reason.
        :return: the tokens, and whether they are the answer to a request of this process.
        :raises LoginRequiredError: the user must log in again.
        """
        asked_at = clock.now()
        try:
            call = api.refresh_user_token(stored.refresh_token)
            # Not in a variable: an error below would show the tokens in its traceback.
            fresh = user_tokens_of(await self.send(call), asked_at, stored.refresh_token)
        except WorkflowError as fault:
            reason = _why_invalid(fault)
            if reason is None:
                raise
            reject(stored.refresh_token, reason)
            newer = await self._newer(stored)
            if newer is None:
                raise LoginRequiredError(connection_id, reason) from fault
            return newer, False
        if fresh.refresh_token != stored.refresh_token:
            reject(stored.refresh_token, NOT_STORED)
        return await self._store(fresh, stored, connection_id)

    async def _newer(self, stored: UserTokens) -> UserTokens | None:
        """The tokens that another process stores within 10 s, or None."""
        for seconds in READ_AGAIN_SECONDS:
            await self.sleep(seconds)
            try:
                newest = await self.read()
            except TokenStoreError:
                continue
            if newest is not None and newest.access_token != stored.access_token:
                return newest
        return None

    async def _store(
        self, fresh: UserTokens, stored: UserTokens, connection_id: str
    ) -> tuple[UserTokens, bool]:
        """
        Store new tokens before they are used, unless the store has changed meanwhile; then use the stored
        ones.

        A user may have logged in, or a write that raised may have succeeded and other processes renewed
        since.

        :raises LoginRequiredError: the tokens could not be stored.
        """
        for seconds in WRITE_AGAIN_SECONDS:
            if seconds:
                await self.sleep(seconds)
            try:
                newest = await self.read()
                if newest is not None and newest.access_token != stored.access_token:
                    return newest, newest == fresh
                await self.in_thread(partial(self.store.write, fresh))
                return fresh, True
            except TokenStoreError as error:
                fault = error
        raise LoginRequiredError(connection_id, NOT_STORED) from fault


def _why_invalid(fault: WorkflowError) -> str | None:
    if isinstance(fault, TransportError):
        return LOST if fault.sent else None
    if isinstance(fault, AuthenticationError):
        if fault.status == 200 and fault.code is None:
            return LOST
        # Without a detail, it may be the page of a proxy.
        if fault.code == "invalid_grant" or (fault.status == 400 and fault.code is None and fault.detail):
            return REFUSED
    return None
