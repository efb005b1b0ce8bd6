"""The client over ``requests``: for tasks, the page, and the command line."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from airflow_provider_workflow import clock
from airflow_provider_workflow.client.call import Call, Calls
from airflow_provider_workflow.client.errors import TransportError, WorkflowError
from airflow_provider_workflow.client.exchange import BaseClient
from airflow_provider_workflow.client.http_messages import Answer, Request
from airflow_provider_workflow.client.requests_transport import RequestsWire
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.tokens import AccessToken, Renewal

ATTEMPTS = 5
BACKOFF_SECONDS = 1.0
BACKOFF_CAP_SECONDS = 20.0
T = TypeVar("T")
P = ParamSpec("P")


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
            value: T = self._retrying(lambda: finished(self.attempt(call)))
            return value
        except WorkflowError as error:
            error.may_repeat = False  # nor does a call that depends on this one
            raise

    def run(self, calls: Calls[P, T], *args: P.args, **options: P.kwargs) -> T:
        """
        Make several calls.

        :param calls: makes them by its first argument, such as ``inboxes.all_messages``.
        :param args: further arguments of ``calls``.
        :raises WorkflowError: a call failed.
        """
        return finished(calls(self._call, *args, **options))

    def access_token(self, scope: str) -> AccessToken:
        """
        The access token of a scope, from the cache if it is not due for renewal.

        :raises WorkflowError: no token could be obtained.
        """
        token, _ = finished(self.token_of(scope))
        return token

    async def _call(self, call: Call[T]) -> T:
        return self.send(call)

    async def _request(self, request: Request) -> Answer:
        is_renewal = request.timeout > self.settings.timeout
        seconds = self._seconds_left(request.timeout)
        return self.exchange(request if is_renewal else replace(request, timeout=seconds))

    async def _sleep(self, seconds: float) -> None:
        clock.sleep(seconds)

    async def _in_thread(self, function: Callable[[], T]) -> T:
        return function()

    async def _renewed(self, renewal: Renewal) -> None:
        renewal.result(self._seconds_left(self.renewal_seconds))

    def _seconds_left(self, timeout: float) -> float:
        """
        A timeout, or what is left of the limit for all requests together, if that is less.

        :raises TransportError: nothing is left.
        """
        if self._ends_at is None:
            return timeout
        seconds = self._ends_at - clock.monotonic()
        if seconds <= 0:
            raise TransportError("the service is too slow: no time is left", sent=False, timed_out=True)
        return min(timeout, seconds)

    def exchange(self, request: Request) -> Answer:
        """
        Send one request; nothing else uses the network.

        :raises TransportError: no complete answer was received.
        """
        if self._wire is None:
            self._wire = RequestsWire(self.settings.tls())
        return self._wire.exchange(request)


def finished(work: Coroutine[Any, Any, T]) -> T:
    """
    The value of a coroutine that never suspends: it blocks wherever it waits.

    What is raised meanwhile, by a signal too, is raised within the coroutine, and so ends it.
    """
    try:
        work.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    finally:
        work.close()
    raise RuntimeError("a call of a task waits for an event loop")


def _may_repeat(error: BaseException) -> bool:
    return isinstance(error, WorkflowError) and error.may_repeat is True
