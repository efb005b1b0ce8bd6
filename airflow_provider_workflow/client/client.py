"""
The two senders: the same calls over ``requests`` (in tasks) and ``aiohttp`` (in triggers).

A sender performs steps, which ``attempt.py`` describes. The first attempt is made without tenacity, which
would double the cost of a call that succeeds.

The functions at the end of this module wait for asyncio tasks: they lose no cancellation, and finish
operations that cannot be repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import TimeoutError as FutureTimeoutError
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from tenacity import AsyncRetrying, Retrying

from airflow_provider_workflow import clock
from airflow_provider_workflow.client import retry
from airflow_provider_workflow.client.attempt import GATES, Gates, Observer, Parties, attempt, ignore
from airflow_provider_workflow.client.call import (
    Call,
    CarryThrough,
    Pause,
    Read,
    TokenStore,
    UserTokens,
    UseStore,
)
from airflow_provider_workflow.client.errors import ConfigurationError, TransportError, WorkflowError
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.tokens import TOKENS, Renewal, TokenCache
from airflow_provider_workflow.client.wire import Answer, Request

if TYPE_CHECKING:
    import aiohttp

    from airflow_provider_workflow.client.over_requests import RequestsWire

T = TypeVar("T")


class WorkflowClient:
    """
    Sends calls over ``requests``. Not thread-safe. Close it, or use it as a context manager.

    :param settings: the checked connection.
    :param tokens: cache of access tokens; the one of the process by default.
    :param gates: the rate gates; those of the process by default.
    :param longest_wait: maximum wait at a rate gate in seconds, then ``RateLimitError``; None: no maximum.
    :param on_token: called with every new access token, so that logs can mask it.
    :param attempts: maximum number of attempts of a call, 1 or more.
    :param store: store of user tokens; only needed for the grant ``refresh_token``.
    :param observe: called with the outcome of each attempt of a call.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        tokens: TokenCache = TOKENS,
        gates: Gates = GATES,
        longest_wait: float | None = retry.LONGEST_WAIT_SECONDS,
        on_token: Callable[[str], None] = ignore,
        attempts: int = retry.ATTEMPTS,
        store: TokenStore | None = None,
        observe: Observer = ignore,
    ) -> None:
        self.settings = settings
        self._store = store
        self._attempts = attempts
        self._parties = Parties(settings, tokens, gates, longest_wait, on_token, observe)
        self._wire: RequestsWire | None = None

    def __enter__(self) -> WorkflowClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def hurried(self) -> WorkflowClient:
        """A copy with the same connections that makes one attempt per call and never waits at a rate gate."""
        self._open()
        other = copy(self)
        other._attempts = 1
        other._parties = replace(self._parties, longest_wait=0.0)
        return other

    def send(self, call: Call[T]) -> T:
        """
        Send a call and return its answer's value.

        :raises WorkflowError: it failed, after all retries that its policy allows.
        """
        try:
            return self.run(attempt(call, self._parties))
        except WorkflowError as error:
            failed = [error]
        try:
            policy = retry.policy(call, self._attempts, self._parties.longest_wait)
            value: T = Retrying(**policy, sleep=clock.sleep)(self._next_attempt, call, failed)
            return value
        except WorkflowError as error:
            error.exhausted = True
            raise

    def _next_attempt(self, call: Call[T], failed: list[WorkflowError]) -> T:
        if failed:
            raise failed.pop()  # the first, which was made already
        return self.run(attempt(call, self._parties))

    def run(self, exchange: Generator[Any, Any, T]) -> T:
        """Perform an exchange's steps until it returns."""
        resume: Callable[[], Any] = partial(next, exchange)
        try:
            while True:
                step = resume()
                try:
                    resume = partial(exchange.send, self._perform(step))
                except Exception as error:
                    resume = partial(exchange.throw, error)
        except StopIteration as end:
            value: T = end.value
            return value
        finally:
            exchange.close()

    def _perform(self, step: Any) -> Any:
        if isinstance(step, Request):
            return self.exchange(step)
        if isinstance(step, Call):
            return self.send(step)
        if isinstance(step, Pause):
            return clock.sleep(step.seconds)
        if isinstance(step, CarryThrough):
            return self.run(step.exchange)
        if isinstance(step, Read):
            return step.read(step.answer)
        if isinstance(step, UseStore):
            return _use(self._store, step)
        return self._await_renewal(step)

    def _await_renewal(self, renewal: Renewal) -> None:
        """Wait for a renewal by another thread; a client that never waits at a gate has a time limit."""
        hurries = self._parties.longest_wait == 0
        try:
            renewal.result(self.settings.timeout if hurries else None)
        except FutureTimeoutError:
            text = "the access token is still being renewed"
            raise TransportError(text, sent=False, timed_out=True) from None

    def exchange(self, request: Request) -> Answer:
        """
        Send one request; the only step that uses the network.

        :raises TransportError: no complete answer was received.
        """
        return self._open().exchange(request)

    def _open(self) -> RequestsWire:
        if self._wire is None:
            from airflow_provider_workflow.client.over_requests import RequestsWire

            self._wire = RequestsWire(self.settings.certificates())
        return self._wire


class AsyncWorkflowClient:
    """
    Sends calls over ``aiohttp``; it does not close the session.

    For the other parameters see ``WorkflowClient``.

    :param session: from ``over_aiohttp.shared_session``; shared by the clients of an event loop.
    :param store: store of user tokens; only needed for the grant ``refresh_token``.
    :param in_thread: runs blocking functions (of the store) in a thread.
    """

    def __init__(
        self,
        settings: Settings,
        session: aiohttp.ClientSession,
        *,
        tokens: TokenCache = TOKENS,
        gates: Gates = GATES,
        longest_wait: float | None = retry.LONGEST_WAIT_SECONDS,
        on_token: Callable[[str], None] = ignore,
        attempts: int = retry.ATTEMPTS,
        store: TokenStore | None = None,
        in_thread: Callable[..., Coroutine[Any, Any, Any]] = asyncio.to_thread,
        observe: Observer = ignore,
    ) -> None:
        from airflow_provider_workflow.client.over_aiohttp import exchange

        self.settings = settings
        self.session = session
        self._exchange = partial(exchange, session)
        self.parties = Parties(settings, tokens, gates, longest_wait, on_token, observe)
        self._attempts = attempts
        self._store = store
        self._in_thread = in_thread

    async def send(self, call: Call[T]) -> T:
        """
        Send a call and return its answer's value.

        :raises WorkflowError: it failed, after all retries that its policy allows.
        """
        try:
            return await self.run(attempt(call, self.parties))
        except WorkflowError as error:
            failed = [error]
        try:
            policy = retry.policy(call, self._attempts, self.parties.longest_wait)
            return await AsyncRetrying(**policy, sleep=clock.async_sleep)(self._next_attempt, call, failed)
        except WorkflowError as error:
            error.exhausted = True
            raise

    async def _next_attempt(self, call: Call[T], failed: list[WorkflowError]) -> T:
        if failed:
            raise failed.pop()  # the first, which was made already
        return await self.run(attempt(call, self.parties))

    async def run(self, exchange: Generator[Any, Any, T]) -> T:
        """Perform an exchange's steps until it returns."""
        resume: Callable[[], Any] = partial(next, exchange)
        try:
            while True:
                step = resume()
                try:
                    resume = partial(exchange.send, await self._perform(step))
                except Exception as error:
                    resume = partial(exchange.throw, error)
        except StopIteration as end:
            value: T = end.value
            return value
        finally:
            exchange.close()

    def _perform(self, step: Any) -> Awaitable[Any]:
        if isinstance(step, Request):
            return self._exchange(step)
        if isinstance(step, Call):
            return self.send(step)
        if isinstance(step, Pause):
            return clock.async_sleep(step.seconds)
        if isinstance(step, CarryThrough):
            return carry_through(self.run(step.exchange))
        if isinstance(step, Read):
            # It would block the loop. Any thread is suitable, as it does no I/O.
            return asyncio.to_thread(step.read, step.answer)
        if isinstance(step, UseStore):
            return self._in_thread(_use, self._store, step)
        return asyncio.wrap_future(step)


def _use(store: TokenStore | None, step: UseStore) -> UserTokens | None:
    """:raises ConfigurationError: there is no store."""
    if store is None:
        raise ConfigurationError(["the grant refresh_token needs a store of user tokens"])
    if step.write is None:
        return store.read()
    store.write(step.write)
    return None


async def carry_through(work: Coroutine[Any, Any, T]) -> T:
    """
    Await a coroutine to its end, even if the caller is cancelled, any number of times.

    Airflow cancels a trigger about once a second until it ends, so ``asyncio.shield`` is not enough.

    :raises asyncio.CancelledError: the caller was cancelled; raised after the coroutine has ended.
    """
    task = asyncio.ensure_future(work)
    try:
        await _ended(task)
    except asyncio.CancelledError:
        if not task.cancelled():
            task.exception()  # marks it as retrieved: the caller cannot receive it
        raise
    return task.result()


async def end(task: asyncio.Task[None]) -> None:
    """
    Cancel a task and wait until it has ended, even if the caller is cancelled meanwhile.

    :raises asyncio.CancelledError: the caller was cancelled; raised after the task has ended.
    """
    task.cancel()
    await _ended(task, insisting=True)


async def _ended(task: asyncio.Task[Any], *, insisting: bool = False) -> None:
    """
    Wait for a task.

    :param insisting: whether to cancel the task each time that the caller is cancelled.
    :raises asyncio.CancelledError: the caller was cancelled; raised after the task has ended.
    """
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            # The task is not awaited directly: its cancellation must not look like one of the caller.
            await asyncio.wait({task})
        except asyncio.CancelledError as again:
            cancelled = again
            if insisting:
                task.cancel()
    if cancelled is not None:
        raise cancelled
