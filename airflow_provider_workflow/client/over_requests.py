"""Carries a request with ``requests``: for tasks and for the page's connection test."""

from __future__ import annotations

import ssl
from http.cookiejar import DefaultCookiePolicy

import requests

from airflow_provider_workflow.client import deadline
from airflow_provider_workflow.client.errors import TransportError
from airflow_provider_workflow.client.wire import Answer, Request, causes, host_of


class _Session(requests.Session):
    def get_redirect_target(self, resp: requests.Response) -> None:
        """
        None is followed, so none is worked out: that would fail where the address of one is none, and
        the caller would learn nothing of the redirect.
        """


class RequestsWire:
    """
    One session: connections stay open between calls.

    :param ca_file: file of the CA certificates to trust; None verifies nothing.
    """

    def __init__(self, ca_file: str | None) -> None:
        self._verify = ca_file or False
        self._session = _Session()
        self._session.trust_env = False
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, deadline.DeadlineAdapter())

    def close(self) -> None:
        self._session.close()

    def exchange(self, request: Request) -> Answer:
        """
        Send a request and read all of its answer.

        :raises TransportError: no whole answer came within ``request.timeout`` seconds.
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
                verify=self._verify,
                proxies={"http": request.proxy, "https": request.proxy} if request.proxy else {},
            )
            return Answer(response.status_code, response.headers, response.content)
        except (requests.RequestException, OSError) as error:
            fault = _fault(error, request)
        # Out here it has no context: the exceptions of the library hold the request with its secrets.
        raise fault


def _fault(error: Exception, request: Request) -> TransportError:
    chain = causes(error)
    host = host_of(request.url)
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in chain):
        return TransportError(f"the certificate of {host} does not verify", sent=False, permanent=True)
    timed_out = isinstance(error, requests.Timeout) or any(isinstance(each, TimeoutError) for each in chain)
    if deadline.sent():
        if timed_out:
            text = f"{host} gave no whole answer within {request.timeout:g} s"
        else:
            text = f"the connection to {host} broke off: {_reason(chain)}"
        return TransportError(text, sent=True)
    if timed_out:
        text = f"{host} gave no connection within {request.timeout:g} s"
    elif isinstance(error, requests.exceptions.ProxyError):
        text = f"{host} cannot be reached through the proxy of the environment: {_reason(chain)}"
    elif isinstance(error, requests.exceptions.SSLError):
        text = f"no secure connection to {host}: {_reason(chain)}"
    else:
        text = f"{host} cannot be reached: {_reason(chain)}"
    return TransportError(text, sent=False)


def _reason(chain: list[BaseException]) -> str:
    # The innermost cause, by type: library texts repeat the address with its query.
    inner = chain[-1]
    if isinstance(inner, OSError) and inner.strerror:
        return inner.strerror
    if type(inner) is OSError:
        return str(inner)  # of http.client: the status line with which a proxy refused a tunnel
    return type(inner).__name__
