"""Carries a request with ``requests``: for tasks and for the page's connection test."""

from __future__ import annotations

import ssl

import requests
from urllib3.exceptions import NewConnectionError

from airflow_provider_workflow.client.deadline import DeadlineAdapter
from airflow_provider_workflow.client.environment import proxy_for
from airflow_provider_workflow.client.errors import TransportError
from airflow_provider_workflow.client.wire import Answer, Request, causes, host_of


class RequestsWire:
    """
    One session: connections stay open between calls.

    :param ca_file: file of the CA certificates to trust; None verifies nothing.
    """

    def __init__(self, ca_file: str | None) -> None:
        self._verify = ca_file or False
        self._session = requests.Session()
        self._session.trust_env = False
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, DeadlineAdapter())

    def close(self) -> None:
        self._session.close()

    def exchange(self, request: Request) -> Answer:
        """
        Send a request and read all of its answer.

        :raises TransportError: no whole answer came within ``request.timeout`` seconds.
        """
        proxy = proxy_for(request.url)
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
                proxies={"http": proxy, "https": proxy} if proxy else {},
            )
        except (requests.RequestException, OSError) as error:
            raise _fault(error, request) from None
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status_code, headers, response.content)


def _fault(error: Exception, request: Request) -> TransportError:
    chain = causes(error)
    host = host_of(request.url)
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in chain):
        return TransportError(f"the certificate of {host} does not verify", sent=False, permanent=True)
    if isinstance(error, (requests.exceptions.ProxyError, requests.exceptions.SSLError)):
        return TransportError(f"no secure connection to {host}: {type(error).__name__}", sent=False)
    if any(isinstance(cause, NewConnectionError) for cause in chain):
        return TransportError(f"{host} cannot be reached: {_reason(chain)}", sent=False)
    if any(isinstance(cause, TimeoutError) for cause in chain) or isinstance(error, requests.Timeout):
        # Connecting shares the attempt's time, so a connect timeout is the one kind that sent nothing.
        sent = not isinstance(error, requests.ConnectTimeout)
        return TransportError(f"{host} gave no whole answer within {request.timeout:g} s", sent=sent)
    return TransportError(f"the connection to {host} broke off: {_reason(chain)}", sent=True)


def _reason(chain: list[BaseException]) -> str:
    # The innermost cause, by type: library texts repeat the address with its query.
    inner = chain[-1]
    if isinstance(inner, OSError) and inner.strerror:
        return inner.strerror
    return type(inner).__name__
