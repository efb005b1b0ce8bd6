"""
The two clients: the same calls over ``requests`` (in tasks) and ``aiohttp`` (in triggers).

A client performs steps, which ``exchange.py`` describes. Tasks repeat a call that failed; triggers send it
once, as they repeat calls in loops of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from airflow_provider_workflow import clock
from airflow_provider_workflow.client.call import Call, CarryThrough, InThread, Pause
from airflow_provider_workflow.client.errors import TransportError, WorkflowError
from airflow_provider_workflow.client.exchange import BaseClient
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.wire import Answer, Request

if TYPE_CHECKING:
    import aiohttp

    from airflow_provider_workflow.client.over_requests import RequestsWire

ATTEMPTS = 5
BACKOFF_SECONDS = 1.0
BACKOFF_CAP_SECONDS = 20.0

T = TypeVar("T")


class WorkflowClient(BaseClient):
    """
    Sends calls over ``requests``. Not thread-safe. Close it, or use it as a context manager.

    For the other parameters see ``BaseClient``.

    :param attempts: maximum number of attempts of a call, 1 or more.
    :param seconds: limit for all requests together, from now on, but for long renewals of a user's tokens;
        None for no limit.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        attempts: int = ATTEMPTS,
        seconds: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__(settings, **options)
        self._ends_at = None if seconds is None else clock.monotonic() + seconds
        # The rate gate, at which every attempt waits, obeys ``Retry-After``.
        self._retrying = Retrying(
            retry=retry_if_exception(_may_repeat),
            stop=stop_after_attempt(attempts),
            wait=wait_random_exponential(multiplier=BACKOFF_SECONDS, max=BACKOFF_CAP_SECONDS),
            sleep=lambda seconds: clock.sleep(seconds),
            reraise=True,
        )
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

    def send(self, call: Call[T]) -> T:
        """
        Send a call and return its answer's value.

        :raises WorkflowError: it failed, after all retries that are allowed.
        """
        try:
            value: T = self._retrying(lambda: self.run(self.attempt(call)))
            return value
        except WorkflowError as error:
            error.may_repeat = False  # nor does a call that depends on this one
            raise

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
            if self._ends_at is not None:
                step = self._within_limit(step, self._ends_at)
            return self.exchange(step)
        if isinstance(step, Call):
            return self.send(step)
        if isinstance(step, Pause):
            return clock.sleep(step.seconds)
        if isinstance(step, CarryThrough):
            return self.run(step.exchange)
        if isinstance(step, InThread):
            return step.run()
        try:
            # Another thread renews the token; a client that never waits at a gate has a time limit.
            return step.result(self.settings.timeout if self._longest_wait == 0 else None)
        except FutureTimeoutError:
            text = "the access token is still being renewed"
            raise TransportError(text, sent=False, timed_out=True) from None

    def _within_limit(self, request: Request, ends_at: float) -> Request:
        """The request, within what is left of the limit for all of them."""
        seconds_left = ends_at - clock.monotonic()
        if seconds_left <= 0:
            raise TransportError("no time is left", sent=False, timed_out=True)
        is_renewal = request.timeout > self.settings.timeout
        return request if is_renewal else replace(request, timeout=min(request.timeout, seconds_left))

    def exchange(self, request: Request) -> Answer:
        """
        Send one request; the only step that uses the network.

        :raises TransportError: no complete answer was received.
        """
        if self._wire is None:
            from airflow_provider_workflow.client.over_requests import RequestsWire

            self._wire = RequestsWire(self.settings.tls())
        return self._wire.exchange(request)


def _may_repeat(error: BaseException) -> bool:
    return isinstance(error, WorkflowError) and error.may_repeat is True


class AsyncWorkflowClient(BaseClient):
    """
    Sends calls over ``aiohttp``, each once; it does not close the session.

    For the other parameters see ``BaseClient``.

    :param session: from ``over_aiohttp.shared_session``; shared by the clients of an event loop.
    :param in_thread: runs a blocking function in a thread.
    """

    def __init__(
        self,
        settings: Settings,
        session: aiohttp.ClientSession,
        *,
        in_thread: Callable[[Callable[[], Any]], Coroutine[Any, Any, Any]] = asyncio.to_thread,
        **options: Any,
    ) -> None:
        from airflow_provider_workflow.client.over_aiohttp import exchange

        super().__init__(settings, **options)
        self.session = session
        self._exchange = partial(exchange, session)
        self._in_thread = in_thread

    async def send(self, call: Call[T]) -> T:
        """
        Send a call once and return its answer's value.

        :raises WorkflowError: it failed.
        """
        return await self.run(self.attempt(call))

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
        if isinstance(step, InThread):
            return self._in_thread(step.run)
        return asyncio.wrap_future(step)


async def carry_through(work: Coroutine[Any, Any, T]) -> T:
    """
    Await a coroutine to its end, even if the caller is cancelled, as Airflow does it once a second.

    :raises asyncio.CancelledError: the caller was cancelled; raised after the coroutine has ended.
    """
    task = asyncio.ensure_future(work)
    try:
        await ended(task)
    except asyncio.CancelledError:
        if not task.cancelled():
            task.exception()  # marks it as retrieved: the caller cannot receive it
        raise
    return task.result()


async def ended(task: asyncio.Task[Any], *, canceling: bool = False) -> None:
    """
    Wait until a task has ended, even if the caller is cancelled meanwhile.

    :param canceling: whether to cancel the task, now and each time that the caller is cancelled.
    :raises asyncio.CancelledError: the caller was cancelled; raised after the task has ended.
    """
    if canceling:
        task.cancel()
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            # The task is not awaited directly: its cancellation must not look like one of the caller.
            await asyncio.wait({task})
        except asyncio.CancelledError as again:
            cancelled = again
            if canceling:
                task.cancel()
    if cancelled is not None:
        raise cancelled
