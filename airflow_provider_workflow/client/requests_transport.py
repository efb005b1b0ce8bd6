"""One request over ``requests``: its connections, its answer, and the error if there is none."""

from __future__ import annotations

import ssl
from functools import partial
from http.client import HTTPException
from typing import Any

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError, InsecureRequestWarning

from airflow_provider_workflow.client.answers import CONNECTION, NOT_HTTP, no_answer
from airflow_provider_workflow.client.connections import (
    Connection,
    NotConnectedError,
    SecureConnection,
    TimeLimit,
)
from airflow_provider_workflow.client.errors import TransportError
from airflow_provider_workflow.client.http_messages import Answer, Body, Request
from airflow_provider_workflow.text import escaped

CHUNK = 65_536
"""Bytes that are read at once."""
REQUEST_ERRORS = (NotConnectedError, requests.RequestException, HTTPError, HTTPException, OSError, ValueError)
"""
What ``requests``, ``urllib3``, ``http.client`` and the operating system raise for a request; ``ValueError``
for a host name that cannot be encoded.
"""


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
        except REQUEST_ERRORS as error:
            failure = _transport_error(request, error)
        # Raised after the except clause: within it, it would have a context, whose frames contain the
        # request.
        raise failure


def _answer(response: requests.Response, limit: int) -> Answer:
    """The answer of a response, whose body is read here and nowhere else."""
    raw = response.raw
    # The first of several headers with one name, in the encoding that aiohttp assumes.
    received = ((name.lower(), raw.headers.getlist(name)[0]) for name in raw.headers)
    headers = {name: text.encode("latin-1").decode(errors="surrogateescape") for name, text in received}
    body = Body(response.status_code, headers.get("content-encoding"), limit)
    with response:
        while chunk := raw.read1(CHUNK, decode_content=False):
            body.add(chunk)
            if body.is_cut:
                raw.close()  # the rest is not read
                break
    return Answer(response.status_code, headers, body.received(), body.is_cut)


def _transport_error(request: Request, error: Exception) -> TransportError:
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
        return escaped(str(cause))
    return NOT_HTTP if isinstance(cause, HTTPException) else type(cause).__name__
