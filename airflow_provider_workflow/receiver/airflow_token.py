"""Tokens for Airflow's REST API: given, or had for a name and a password, and renewed once refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field

import aiohttp

from airflow_provider_workflow.client.errors import TransportError
from airflow_provider_workflow.client.over_aiohttp import exchange
from airflow_provider_workflow.client.settings import proxy_for
from airflow_provider_workflow.client.wire import Answer, Request

TIMEOUT_SECONDS = 30.0
JSON = {"Content-Type": "application/json", "Accept": "application/json"}


class AirflowFailure(Exception):
    """Airflow did not do as asked. The text names the cure, and holds no secret."""


@dataclass(frozen=True)
class Credentials:
    """
    How to come by a token. With neither of the two, Airflow is asked for one without a password, which it
    gives when ``[core] simple_auth_manager_all_admins`` is on.

    :param username: of a user who may read and create runs of the dispatch DAGs.
    :param password: reads the password, each time that it is needed.
    :param token: reads a token that was made elsewhere, each time that one is needed.
    """

    username: str | None = None
    password: Callable[[], str] | None = field(default=None, repr=False)
    token: Callable[[], str] | None = field(default=None, repr=False)


class AirflowToken:
    """
    The token of a process, for all inboxes together.

    :param url: address of Airflow's API server, without a slash at its end.
    :param credentials: where tokens come from.
    :param session: carries the requests.
    """

    def __init__(self, url: str, credentials: Credentials, session: aiohttp.ClientSession) -> None:
        self._url = f"{url}/auth/token"
        self._proxy = proxy_for(url)
        self._credentials = credentials
        self._session = session
        self._token: str | None = None
        self._renewing = asyncio.Lock()

    async def get(self, refused: str | None = None) -> str:
        """
        The token to use.

        :param refused: a token that Airflow answered 401 to; another one is obtained, unless somebody else
            has done so already.
        :raises AirflowFailure: there is none to be had.
        :raises TransportError: Airflow is unreachable.
        """
        async with self._renewing:
            if self._token is None or self._token == refused:
                self._token = None
                self._token = await self._obtain()
            return self._token

    async def _obtain(self) -> str:
        if self._credentials.token is not None:
            token = _read(self._credentials.token, "token").strip()
            if not _fits_a_header(token):
                raise AirflowFailure("the token for Airflow is no line of plain text")
            return token
        answer = await exchange(self._session, self._request())
        if answer.status not in (200, 201):
            raise AirflowFailure(self._refusal(answer.status))
        return _access_token(answer)

    def _request(self) -> Request:
        if self._credentials.password is None:
            return Request("GET", self._url, {}, JSON, None, TIMEOUT_SECONDS, self._proxy)
        password = _read(self._credentials.password, "password")
        body = json.dumps({"username": self._credentials.username, "password": password})
        return Request("POST", self._url, {}, JSON, body.encode(), TIMEOUT_SECONDS, self._proxy)

    def _refusal(self, status: int) -> str:
        """Say nothing of the body: Airflow repeats what it does not accept, a password too."""
        said = f"Airflow gives no token (/auth/token answered {status})"
        if status >= 500 or status == 429:
            return said
        if self._credentials.password is None:
            return f"{said}: give a user name and a password, or a token"
        if status in (400, 401, 403, 422):
            return f"{said}: correct the user name and the password"
        return f"{said}: correct the address of Airflow, or give a token where its users log in otherwise"


def _read(read: Callable[[], str], what: str) -> str:
    try:
        value = read().rstrip("\r\n")
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or type(error).__name__
        raise AirflowFailure(f"the file with the {what} for Airflow cannot be read: {reason}") from None
    if not value:
        raise AirflowFailure(f"the {what} for Airflow is empty")
    return value


def _access_token(answer: Answer) -> str:
    try:
        token = answer.json()["access_token"]
    except (TransportError, KeyError, TypeError):
        token = None
    if not isinstance(token, str) or not _fits_a_header(token):
        raise AirflowFailure("Airflow's /auth/token gave no token: correct the address of Airflow")
    return token


def _fits_a_header(token: str) -> bool:
    return bool(token) and token.isascii() and token.isprintable()
