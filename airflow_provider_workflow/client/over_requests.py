"""Sends requests with ``requests``: for tasks and for the connection test of Airflow's UI."""

from __future__ import annotations

import io
import socket
import ssl
import threading
import time  # real time: the kernel keeps the time limits of sockets
from collections.abc import Iterator
from http.client import HTTPException, HTTPResponse, RemoteDisconnected
from http.cookiejar import DefaultCookiePolicy
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError
from urllib3.poolmanager import PoolManager

from airflow_provider_workflow.client.body import Body
from airflow_provider_workflow.client.errors import TransportError
from airflow_provider_workflow.client.failures import Stage, no_answer
from airflow_provider_workflow.client.wire import Answer, Request

SWITCHING_PROTOCOLS = 101
CHUNK = 65_536
"""Bytes that are read at once."""


class _Attempt(threading.local):
    deadline = 0.0
    sent = False


_current = _Attempt()


def sent() -> bool:
    """Whether the service may have received the request of this thread's latest attempt."""
    return _current.sent


def remaining() -> float:
    """
    Seconds left of this thread's attempt.

    :raises TimeoutError: none are left.
    """
    seconds = _current.deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("the attempt took longer than its timeout")
    return seconds


class _LimitedReader(io.RawIOBase):
    """Reads a socket; the timeout of each read is the remaining time of the attempt."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._raw: Any = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(remaining())
        count: int | None = self._raw.readinto(buffer)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Socket:
    """The part of a socket that ``HTTPResponse`` uses: a file to read from."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        return io.BufferedReader(_LimitedReader(self._sock))


class _Head:
    """
    The reader of an answer's status line and headers.

    ``http.client`` accepts headers that end with the connection, so that half an answer would look like a
    complete one without a body.
    """

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def readline(self, limit: int) -> bytes:
        line: bytes = self._reader.readline(limit)
        if len(line) < limit and not line.endswith(b"\n"):
            raise RemoteDisconnected("the connection ended before the headers did")
        return line

    def close(self) -> None:
        self._reader.close()


class _Response(HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(_Socket(sock), *args, **kwargs)  # type: ignore[arg-type]

    def begin(self) -> None:
        reader = self.fp
        self.fp = _Head(reader)  # type: ignore[assignment]
        try:
            super().begin()
            while 100 < self.status < 200 and self.status != SWITCHING_PROTOCOLS:
                self.headers = self.msg = None  # type: ignore[assignment]
                super().begin()  # the base class skips only interim answers with the status 100
        finally:
            if self.fp is not None:
                self.fp = reader
        if len(self.headers.get_all("content-length", ())) > 1:
            raise HTTPException("several Content-Length headers")  # aiohttp rejects them too


class _Limited:
    """Applies the time limit of the attempt to both kinds of connection."""

    sock: Any
    timeout: float | None

    def connect(self) -> None:
        self.timeout = remaining()
        super().connect()  # type: ignore[misc]

    def request(self, *args: Any, **kwargs: Any) -> None:
        if self.sock is None:
            self.connect()
        self.timeout = remaining()
        _current.sent = True
        super().request(*args, **kwargs)  # type: ignore[misc]


class _Connection(_Limited, HTTPConnection):
    response_class = _Response


class _SecureConnection(_Limited, HTTPSConnection):
    response_class = _Response


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection

    def _validate_conn(self, conn: Any) -> None:
        # Like the base class, without its warning about unverified certificates with each request:
        # ``Settings.certificates`` logs it once.
        if conn.sock is None:
            conn.connect()


class DeadlineAdapter(HTTPAdapter):
    """
    Applies ``timeout`` to the whole attempt, from connecting to the last byte.

    :param certificates: CA certificates to trust, in PEM format; None: certificates are not verified.
    """

    def __init__(self, certificates: str | None) -> None:
        self._certificates = certificates
        super().__init__()

    def build_connection_pool_key_attributes(self, *args: Any, **kwargs: Any) -> Any:
        host, tls = super().build_connection_pool_key_attributes(*args, **kwargs)
        verified = {"cert_reqs": "CERT_REQUIRED", "ca_cert_data": self._certificates}
        return host, {**tls, **(verified if self._certificates else {"cert_reqs": "CERT_NONE"})}

    def cert_verify(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: the base class would add the certificates of ``certifi``."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self._limit(self.poolmanager)

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(*args, **kwargs)
        self._limit(manager)
        return manager

    def send(self, *args: Any, **kwargs: Any) -> Any:
        _current.deadline = time.monotonic() + kwargs["timeout"]
        _current.sent = False
        return super().send(*args, **kwargs)

    @staticmethod
    def _limit(manager: PoolManager) -> None:
        manager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}


class _Session(requests.Session):
    def get_redirect_target(self, resp: requests.Response) -> None:
        """
        Return None: redirects are not followed.

        The base class would raise for an invalid URL, and the caller would not learn of the redirect.
        """


class RequestsWire:
    """
    One session: connections stay open between calls.

    :param certificates: CA certificates to trust, in PEM format; None: certificates are not verified.
    """

    def __init__(self, certificates: str | None) -> None:
        self._session = _Session()
        self._session.trust_env = False
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, DeadlineAdapter(certificates))

    def close(self) -> None:
        self._session.close()

    def exchange(self, request: Request) -> Answer:
        """
        Send a request and read its complete answer.

        :raises TransportError: no complete answer within ``request.timeout`` seconds.
        """
        try:
            response = self._session.request(
                request.method,
                request.url,
                params=dict(request.query),
                headers=dict(request.headers),
                data=request.body,
                timeout=request.timeout,
                allow_redirects=False,
                proxies={"http": request.proxy, "https": request.proxy} if request.proxy else {},
                stream=True,
            )
            return _answer(response, request.limit)
        except (requests.RequestException, HTTPError, OSError) as error:
            fault = _fault(error, request)
        # Raised here, it has no context: the library's exceptions contain the request with its secrets.
        raise fault


def _answer(response: requests.Response, limit: int) -> Answer:
    """The answer of a response, whose body is read here and nowhere else."""
    raw = response.raw
    # The first of several headers with one name, as aiohttp has it.
    headers = {name.lower(): raw.headers.getlist(name)[0] for name in raw.headers}
    body = Body(response.status_code, headers.get("content-encoding"), limit)
    with response:
        for chunk in raw.stream(CHUNK, decode_content=False):
            for _ in body.add(chunk):
                pass
            if body.is_cut:
                raw.close()  # the rest is not read
                break
    return Answer(response.status_code, headers, body.received(), body.is_cut)


def causes(error: BaseException) -> list[BaseException]:
    """An exception and its causes, innermost last; libraries chain exceptions in several ways."""
    chain = [error]
    while len(chain) < 20:
        last = chain[-1]
        inner = last.__cause__ or last.__context__ or getattr(last, "reason", None)
        inner = inner if isinstance(inner, BaseException) else next(_exceptions(last.args), None)
        if inner is None or inner in chain:
            break
        chain.append(inner)
    return chain


def _exceptions(args: tuple[Any, ...]) -> Iterator[BaseException]:
    return (arg for arg in args if isinstance(arg, BaseException))


def _fault(error: Exception, request: Request) -> TransportError:
    chain = causes(error)
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in chain):
        stage = Stage.CERTIFICATE
    elif isinstance(error, requests.exceptions.ProxyError):
        stage = Stage.PROXY
    elif isinstance(error, requests.exceptions.SSLError):
        stage = Stage.TLS
    else:
        stage = Stage.CONNECTION
    timed_out = isinstance(error, requests.Timeout) or any(isinstance(each, TimeoutError) for each in chain)
    return no_answer(request, stage, _reason(chain), sent=sent(), timed_out=timed_out)


def _reason(chain: list[BaseException]) -> str:
    # The type of the innermost cause: messages of the library contain the URL with its query.
    inner = chain[-1]
    if isinstance(inner, OSError) and inner.strerror:
        return inner.strerror
    if type(inner) is OSError:
        return str(inner)  # from http.client: the status line with which a proxy rejected a tunnel
    return type(inner).__name__
