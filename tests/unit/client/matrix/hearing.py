"""A listener of an event stream, until the stream is first left alone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from airflow_provider_workflow.client.client import AsyncWorkflowClient
from airflow_provider_workflow.client.event_stream import listen
from airflow_provider_workflow.client.over_aiohttp import shared_session
from airflow_provider_workflow.client.tokens import TokenCache, issued_token, token_key
from airflow_provider_workflow.clock import use
from tests.unit.client.calls import SOME_ID
from tests.unit.client.scripted import Script, ScriptedServer
from tests.unit.fake_clock import FakeClock

LONG = 10.0
SHORTLY, FIVE_MINUTES, A_DAY = 0.5, 300.0, 86400.0
SPREAD = 1.25
"""Pauses are as much as a quarter longer, so that not all listeners come back at once."""


@dataclass(frozen=True)
class Heard:
    """
    What a listener saw of a stream until it was first left alone.

    :param rang: whether the bell rang.
    :param pause: seconds for which it is left alone.
    :param sent: how often the stream was asked for.
    :param tokens: how often a token was asked for, beside the one that was there.
    :param text: what the log says of it.
    """

    rang: bool
    pause: float
    sent: int
    tokens: int
    text: str

    def complaint(self, pause: float, says: str, sent: int = 1, tokens: int = 0) -> str:
        found = []
        if self.rang:
            found.append("it rang")
        if not pause <= self.pause <= pause * SPREAD:
            found.append(f"left alone for {self.pause} s and not {pause}")
        if (self.sent, self.tokens) != (sent, tokens):
            found.append(f"{self.sent} requests and {self.tokens} for tokens, and not {sent} and {tokens}")
        if says not in self.text:
            found.append(f"{says!r} is not in {self.text!r}")
        return "; ".join(found)


Hear = Callable[..., Awaitable[Heard]]


@pytest.fixture
def hear(caplog: pytest.LogCaptureFixture) -> Hear:
    """
    Listens to a stream of the service until it is first left alone.

    With ``token``, the answer of the token endpoint, the listener has no token yet. ``naps`` are those that
    come before; ``inboxes`` are listened to beside each other.
    """

    async def once(
        service: ScriptedServer,
        script: Script,
        token: Script | None = None,
        naps: int = 0,
        inboxes: int = 1,
        **changes: Any,
    ) -> Heard:
        caplog.clear()
        caplog.set_level(logging.DEBUG, "airflow_provider_workflow.client.event_stream")
        service.script(script, token=token)
        settings = service.settings(**changes)
        left: asyncio.Future[float] = asyncio.get_running_loop().create_future()

        async def meanwhile(seconds: float) -> None:
            nonlocal naps
            naps -= 1
            if naps < 0:
                if not left.done():
                    left.set_result(seconds)
                await asyncio.Event().wait()

        tokens, fake = TokenCache(), FakeClock()
        fake.meanwhile = meanwhile
        if token is None:
            token = issued_token({"access_token": "warm-token"}, fake.monotonic())
            tokens.put(token_key(settings, settings.scope), token)
        with use(fake):
            async with shared_session(settings.certificates(), 10) as session, AsyncExitStack() as listening:
                client = AsyncWorkflowClient(settings, session, tokens=tokens)
                names = [SOME_ID, *(f"another-{number}" for number in range(1, inboxes))]
                for name in names:
                    bell = await listening.enter_async_context(listen(client, name, streams=inboxes))
                pause = await asyncio.wait_for(left, LONG)
                rang = await bell.wait(0)
        # Requests that were cut off are still read: they are none of the next listener.
        await asyncio.to_thread(service.finish)
        return Heard(rang, pause, len(service.requests), len(service.token_requests), caplog.text)

    return once
