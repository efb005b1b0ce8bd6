"""The client over ``requests``: for tasks, the page, and the command line."""

from __future__ import annotations

import ssl
import sys
import time  # real time: as that of sockets
from collections.abc import Callable, Generator
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import replace
from functools import partial
from traceback import walk_tb
from typing import Any, TypeVar

import requests
import urllib3
from requests.adapters import HTTPAdapter
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    InsecureRequestWarning,
    NewConnectionError,
)

from airflow_provider_workflow import clock
from airflow_provider_workflow.client.answers import CERTIFICATE, CONNECTION, PROXY, TLS, no_answer
from airflow_provider_workflow.client.call import Call, CarryThrough, InThread, Pause
from airflow_provider_workflow.client.errors import TransportError, WorkflowError
from airflow_provider_workflow.client.exchange import BaseClient
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.wire import Answer, Body, Request, plain

ATTEMPTS = 5
BACKOFF_SECONDS = 1.0
BACKOFF_CAP_SECONDS = 20.0
CHUNK = 65_536
"""Bytes that are read at once."""
NOT_SENT = (NewConnectionError, ConnectTimeoutError, ssl.SSLCertVerificationError)
"""
Causes of errors after which the service has not received the request.

A ``ProxyError`` is none, as urllib3 also raises it if an answer is lost.
"""

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
            raise TransportError("the service is too slow: no time is left", sent=False, timed_out=True)
        is_renewal = request.timeout > self.settings.timeout
        return request if is_renewal else replace(request, timeout=min(request.timeout, seconds_left))

    def exchange(self, request: Request) -> Answer:
        """
        Send one request; the only step that uses the network.

        :raises TransportError: no complete answer was received.
        """
        if self._wire is None:
            self._wire = RequestsWire(self.settings.tls())
        return self._wire.exchange(request)


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
        super().__init__()

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

        :raises TransportError: no connection, or no data, within ``request.timeout`` seconds, or no complete
            answer in that time.
        """
        ends_at = time.monotonic() + request.timeout
        handled = sys.exception()
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
            return _answer(response, request.limit, ends_at)
        except (requests.RequestException, HTTPError, OSError) as error:
            fault = _fault(request, _causes(error, handled))
        # Raised here, it has no context, in which the request is.
        raise fault


def _answer(response: requests.Response, limit: int, ends_at: float) -> Answer:
    """The answer of a response, whose body is read here and nowhere else."""
    raw = response.raw
    # The first of several headers with one name, as aiohttp has it.
    headers = {name.lower(): raw.headers.getlist(name)[0] for name in raw.headers}
    body = Body(response.status_code, headers.get("content-encoding"), limit)
    with response:
        while chunk := raw.read1(CHUNK, decode_content=False):
            for _ in body.add(chunk):
                pass
            if body.is_cut:
                raw.close()  # the rest is not read
                break
            if time.monotonic() > ends_at:
                raise TimeoutError("the answer took longer than its timeout")
    return Answer(response.status_code, headers, body.received(), body.is_cut)


def _causes(error: BaseException, handled: BaseException | None) -> list[BaseException]:
    """An exception and its causes, innermost last, without what the caller handled meanwhile."""
    chain = [error]
    while len(chain) < 20:
        last = chain[-1]
        linked = (last.__cause__, last.__context__, getattr(last, "reason", None), *last.args)
        known = (handled, *chain)
        causes = [cause for cause in linked if isinstance(cause, BaseException)]
        inner = [cause for cause in causes if cause not in known]
        if not inner:
            break
        chain.append(inner[0])
    return chain


def _is_refused_tunnel(cause: BaseException) -> bool:
    # From http.client; only its text tells it from other errors.
    return type(cause) is OSError and str(cause).startswith("Tunnel connection failed")


def _fault(request: Request, chain: list[BaseException]) -> TransportError:
    frames = [frame for cause in chain for frame, _ in walk_tb(cause.__traceback__)]
    in_handshake = any(frame.f_code.co_name == "do_handshake" for frame in frames)
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in chain):
        stage = CERTIFICATE
    elif isinstance(chain[0], requests.exceptions.ProxyError):
        stage = PROXY
    elif in_handshake or any(isinstance(cause, ssl.SSLError) for cause in chain):
        stage = TLS
    else:
        stage = CONNECTION
    timed_out = any(isinstance(cause, (requests.Timeout, TimeoutError)) for cause in chain)
    is_unsent = in_handshake or any(isinstance(cause, NOT_SENT) for cause in chain)
    sent = not (is_unsent or _is_refused_tunnel(chain[-1]))
    return no_answer(request, stage, _reason(chain), sent=sent, timed_out=timed_out)


def _reason(chain: list[BaseException]) -> str:
    # The type of the innermost cause: messages of the library contain the URL with its query.
    inner = chain[-1]
    if isinstance(inner, OSError) and inner.strerror:
        return inner.strerror
    if _is_refused_tunnel(inner):
        return plain(str(inner))
    return type(inner).__name__
