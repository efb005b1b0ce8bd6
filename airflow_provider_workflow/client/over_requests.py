"""The client over ``requests``: for tasks, the page, and the command line."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from http.client import HTTPException
from typing import Any, ParamSpec, TypeVar

import requests
import urllib3
from requests.adapters import HTTPAdapter
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential
from urllib3.exceptions import HTTPError, InsecureRequestWarning

from airflow_provider_workflow import clock
from airflow_provider_workflow.client.answers import CONNECTION, NOT_HTTP, no_answer
from airflow_provider_workflow.client.call import Call, Calls
from airflow_provider_workflow.client.connections import (
    Connection,
    NotConnectedError,
    SecureConnection,
    TimeLimit,
)
from airflow_provider_workflow.client.errors import TransportError, WorkflowError
from airflow_provider_workflow.client.exchange import BaseClient
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.tokens import AccessToken, Renewal
from airflow_provider_workflow.client.wire import Answer, Body, Request
from airflow_provider_workflow.text import plain

ATTEMPTS = 5
BACKOFF_SECONDS = 1.0
BACKOFF_CAP_SECONDS = 20.0
CHUNK = 65_536
"""Bytes that are read at once."""
FAULTS = (NotConnectedError, requests.RequestException, HTTPError, HTTPException, OSError, ValueError)
"""
What ``requests``, ``urllib3``, ``http.client`` and the operating system raise for a request; ``ValueError``
for a host name that cannot be encoded.
"""

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


class RequestsWire(HTTPAdapter):
    """
    Connections, which stay open between calls. There are no cookies and no redirects, and nothing is read
    from the environment. It trusts the certificates of the connection, not of ``certifi``.

    :param tls: verifies certificates; None: they are not verified.
    """

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self._tls = tls
        if tls is None:
            # ``Settings.tls`` logs it once; urllib3 would warn with each request.
            urllib3.disable_warnings(InsecureRequestWarning)
        self._limit = TimeLimit()
        super().__init__()

    def get_connection_with_tls_context(self, *args: Any, **kwargs: Any) -> Any:
        """Connections with one time limit for everything."""
        pool: Any = super().get_connection_with_tls_context(*args, **kwargs)
        kind = SecureConnection if pool.scheme == "https" else Connection
        pool.ConnectionCls = partial(kind, limit=self._limit)
        return pool

    def build_connection_pool_key_attributes(self, *args: Any, **kwargs: Any) -> Any:
        host, pool = super().build_connection_pool_key_attributes(*args, **kwargs)
        verified = {"cert_reqs": "CERT_REQUIRED", "ssl_context": self._tls}
        return host, {**pool, **(verified if self._tls else {"cert_reqs": "CERT_NONE"})}

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        """Trust the same certificates for a proxy that is reached by TLS."""
        return super().proxy_manager_for(*args, **kwargs, proxy_ssl_context=self._tls)

    def cert_verify(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: the base class would add the certificates of ``certifi``."""

    def exchange(self, request: Request) -> Answer:
        """
        Send a request and read its complete answer.

        :raises TransportError: no complete answer within ``request.timeout`` seconds. Only the resolution of
            the host's name may take longer, as long as the operating system lets it.
        """
        self._limit.start(request.timeout)
        try:
            prepared = requests.Request(
                request.method,
                request.url,
                params=dict(request.query),
                headers=dict(request.headers),
                data=request.body,
            ).prepare()
            response = self.send(
                prepared,
                stream=True,
                timeout=request.timeout,
                proxies={"http": request.proxy, "https": request.proxy} if request.proxy else {},
            )
            return _answer(response, request.limit)
        except FAULTS as error:
            fault = _fault(request, error)
        # Raised here, it has no context, in which the request is.
        raise fault


def _answer(response: requests.Response, limit: int) -> Answer:
    """The answer of a response, whose body is read here and nowhere else."""
    raw = response.raw
    # The first of several headers with one name, in the encoding that aiohttp assumes.
    received = ((name.lower(), raw.headers.getlist(name)[0]) for name in raw.headers)
    headers = {name: text.encode("latin-1").decode(errors="surrogateescape") for name, text in received}
    body = Body(response.status_code, headers.get("content-encoding"), limit)
    with response:
        while chunk := raw.read1(CHUNK, decode_content=False):
            for _ in body.add(chunk):
                pass
            if body.is_cut:
                raw.close()  # the rest is not read
                break
    return Answer(response.status_code, headers, body.received(), body.is_cut)


def _fault(request: Request, error: Exception) -> TransportError:
    causes = _causes(error)
    stage, sent = (error.stage, False) if isinstance(error, NotConnectedError) else (CONNECTION, True)
    timed_out = any(isinstance(cause, TimeoutError) for cause in causes)
    return no_answer(request, stage, _reason(causes[-1]), sent=sent, timed_out=timed_out)


def _causes(error: BaseException) -> list[BaseException]:
    """An exception, and what the libraries wrapped in it: the cause of each, the innermost one last."""
    causes = [error]
    while len(causes) < 20:
        last = causes[-1]
        linked = (last.__cause__, getattr(last, "reason", None), *last.args)
        inner = [cause for cause in linked if isinstance(cause, BaseException) and cause not in causes]
        if not inner:
            break
        causes.append(inner[0])
    return causes


def _reason(cause: BaseException) -> str:
    # The type of the innermost cause: messages of the library contain the URL with its query.
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    # From http.client; only its text tells it from other errors.
    if type(cause) is OSError and str(cause).startswith("Tunnel connection failed"):
        return plain(str(cause))
    return NOT_HTTP if isinstance(cause, HTTPException) else type(cause).__name__
