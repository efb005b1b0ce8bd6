"""One connection to the event stream of an inbox (docs/service.md 5), from its token to its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow import clock
from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.auth import token_key
from airflow_provider_workflow.client.client import AsyncWorkflowClient
from airflow_provider_workflow.client.conversation import Parties, bearer_token, scope_of, token_refused
from airflow_provider_workflow.client.errors import AuthenticationError, WorkflowAPIError
from airflow_provider_workflow.client.event_parser import EventParser
from airflow_provider_workflow.client.failures import failure
from airflow_provider_workflow.client.requesting import Bearer, build, hide
from airflow_provider_workflow.client.wire import Answer, Request

if TYPE_CHECKING:
    import aiohttp

SILENCE_SECONDS = 60.0
"""Without a byte for four keep-alives the connection is dead."""


async def notices_of(client: AsyncWorkflowClient, inbox_id: str) -> AsyncGenerator[Any, None]:
    """
    Connect, with a new token where the one at hand is refused.

    Yields None once connected, then each notice, until the service ends the stream.

    :raises WorkflowError: it could not be opened, or broke.
    """
    tokens = client.parties.tokens
    key = token_key(client.settings, scope_of(api.events(inbox_id), client.settings))
    renewed = False
    while True:
        request, bearer = await client.run(_signed(inbox_id, client.parties))
        try:
            async with aclosing(_read(client, request, bearer)) as notices:
                async for notice in notices:
                    yield notice
            return
        except AuthenticationError as error:
            # Streams share their token with all other calls, and come back again and again.
            if not token_refused(error) or tokens.is_sound(key, bearer.token):
                raise
            if renewed or bearer.fresh:
                tokens.note_sound(key, bearer.token)
                raise
        tokens.drop(key, bearer.token)
        renewed = True


def _signed(inbox_id: str, parties: Parties) -> Generator[Any, Any, tuple[Request, Bearer]]:
    call = api.events(inbox_id)
    bearer = yield from bearer_token(call, parties)
    return build(parties.settings, call, bearer, parties.proxy_for), bearer


async def _read(client: AsyncWorkflowClient, request: Request, bearer: Bearer) -> AsyncGenerator[Any, None]:
    import aiohttp

    from airflow_provider_workflow.client.over_aiohttp import Line, fault

    limit = aiohttp.ClientTimeout(total=None, sock_connect=request.timeout, sock_read=SILENCE_SECONDS)
    line = Line.begin()
    try:
        async with client.session.get(
            request.url,
            headers={**request.headers, "Accept": "text/event-stream"},
            timeout=limit,
            allow_redirects=False,
            proxy=request.proxy,
        ) as response:
            if response.status != 200 or response.content_type != "text/event-stream":
                raise await _refusal(client, response, request.timeout, bearer)
            yield None
            parser = EventParser()
            async for chunk in response.content.iter_any():
                for notice in parser.feed(chunk):
                    yield notice
            return
    except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
        broken = fault(error, request, line)
    raise broken  # out here it has no context, as in ``exchange``


async def _refusal(
    client: AsyncWorkflowClient, response: aiohttp.ClientResponse, seconds: float, bearer: Bearer
) -> WorkflowAPIError:
    call = api.events("-")
    body = b""
    if response.status >= 300:
        async with clock.timeout(seconds):
            body = await response.read()
    answer = hide(Answer(response.status, response.headers, body), client.settings, call, bearer)
    refused = failure(call, answer) or WorkflowAPIError(
        f"events was answered with {response.status} and no event stream ({response.content_type})",
        status=response.status,
    )
    client.parties.observe(call, refused)
    return refused
