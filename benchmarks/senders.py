"""The same requests, sent by our two clients and by bare sessions of the libraries that these use."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import requests

from airflow_provider_workflow.client.call import Call
from airflow_provider_workflow.client.client import AsyncWorkflowClient, WorkflowClient
from airflow_provider_workflow.client.over_aiohttp import shared_session
from airflow_provider_workflow.client.settings import Settings

TIMEOUT = 30.0


@dataclass(frozen=True)
class Asked:
    """
    One request, as a call of ours and as what a bare session is given.

    :param what: it asks for.
    :param call: makes the call, each time anew, as a hook does.
    """

    what: str
    call: Callable[[], Call[Any]]
    method: str
    url: str
    query: dict[str, int] = field(default_factory=dict)
    body: dict[str, int] | None = None


@dataclass(frozen=True)
class Senders:
    """
    The four; each sends a request and returns the decoded body of its answer.

    :param ours: over ``requests``.
    :param bare: a session of ``requests``.
    :param ours_async: over ``aiohttp``.
    :param bare_async: a session of ``aiohttp``.
    """

    ours: Callable[[Asked], Any]
    bare: Callable[[Asked], Any]
    ours_async: Callable[[Asked], Awaitable[Any]]
    bare_async: Callable[[Asked], Awaitable[Any]]


@asynccontextmanager
async def senders(settings: Settings, token: str) -> AsyncIterator[Senders]:
    """
    Open all four, and close them in the end.

    :param token: the access token of the bare ones; ours ask for one.
    """
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
    with WorkflowClient(settings) as client, requests.Session() as session:
        session.headers.update(headers)
        async with shared_session(None, 0) as shared, aiohttp.ClientSession(headers=headers) as bare_session:
            async_client = AsyncWorkflowClient(settings, shared)
            yield Senders(
                ours=lambda asked: client.send(asked.call()),
                bare=lambda asked: _send(session, asked),
                ours_async=lambda asked: async_client.send(asked.call()),
                bare_async=lambda asked: _send_async(bare_session, asked),
            )


def _send(session: requests.Session, asked: Asked) -> Any:
    answer = session.request(
        asked.method, asked.url, params=asked.query, json=asked.body, timeout=TIMEOUT, allow_redirects=False
    )
    answer.raise_for_status()
    return answer.json()


async def _send_async(session: aiohttp.ClientSession, asked: Asked) -> Any:
    timeout = aiohttp.ClientTimeout(total=TIMEOUT)
    async with session.request(
        asked.method,
        asked.url,
        params=asked.query,
        json=asked.body,
        timeout=timeout,
        allow_redirects=False,
        raise_for_status=True,
    ) as answer:
        return await answer.json()
