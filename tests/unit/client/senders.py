"""Both senders with one face, so that one test speaks for both."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator
from typing import Any, TypeVar

from airflow_provider_workflow.client.call import Call
from airflow_provider_workflow.client.client import AsyncWorkflowClient, WorkflowClient
from airflow_provider_workflow.client.over_aiohttp import shared_session
from airflow_provider_workflow.client.retry import Gates
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.token_cache import TokenCache

T = TypeVar("T")


class Hands:
    """A clock that moves when somebody sleeps by it, and notes each sleep in ``naps``."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.naps: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.now += seconds

    async def sleep_in_loop(self, seconds: float) -> None:
        self.sleep(seconds)
        await asyncio.sleep(0)


class Sender:
    """
    :param hands: the clock of tokens, gates and sleeps.
    """

    name: str

    def __init__(self, hands: Hands | None = None) -> None:
        self.hands = hands or Hands()
        self.tokens = TokenCache(self.hands)
        self.gates = Gates(self.hands)

    @property
    def naps(self) -> list[float]:
        return self.hands.naps

    def __call__(self, call: Call[T]) -> T:
        raise NotImplementedError

    def run(self, exchange: Generator[Any, Any, T]) -> T:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class SyncSender(Sender):
    name = "requests"

    def __init__(self, settings: Settings, hands: Hands | None = None, **options: Any) -> None:
        super().__init__(hands)
        shared = {"tokens": self.tokens, "gates": self.gates, "sleep": self.hands.sleep}
        self.client = WorkflowClient(settings, **{**shared, **options})

    def __call__(self, call: Call[T]) -> T:
        return self.client.send(call)

    def run(self, exchange: Generator[Any, Any, T]) -> T:
        return self.client.run(exchange)

    def close(self) -> None:
        self.client.close()


class AsyncSender(Sender):
    name = "aiohttp"

    def __init__(self, settings: Settings, hands: Hands | None = None, **options: Any) -> None:
        super().__init__(hands)
        self.loop = asyncio.new_event_loop()
        self._stack = contextlib.AsyncExitStack()
        entering = self._stack.enter_async_context(shared_session(settings.ca_file(), 10))
        shared = {"tokens": self.tokens, "gates": self.gates, "sleep": self.hands.sleep_in_loop}
        session = self.loop.run_until_complete(entering)
        self.client = AsyncWorkflowClient(settings, session, **{**shared, **options})

    def __call__(self, call: Call[T]) -> T:
        return self.loop.run_until_complete(self.client.send(call))

    def run(self, exchange: Generator[Any, Any, T]) -> T:
        return self.loop.run_until_complete(self.client.run(exchange))

    def close(self) -> None:
        self.loop.run_until_complete(self._stack.aclose())
        self.loop.close()


SENDERS = {kind.name: kind for kind in (SyncSender, AsyncSender)}
