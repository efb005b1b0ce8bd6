"""The client over ``aiohttp``: for triggers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import aiohttp
import requests.utils  # noqa: F401 which the proxy of a call needs: here, a thread imports it

from airflow_provider_workflow import clock
from airflow_provider_workflow.client import async_tasks
from airflow_provider_workflow.client.aiohttp_transport import exchange
from airflow_provider_workflow.client.call import Call
from airflow_provider_workflow.client.exchange import BaseClient
from airflow_provider_workflow.client.http_messages import Answer, Request
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.tokens import Renewal

T = TypeVar("T")


class AsyncWorkflowClient(BaseClient):
    """
    Sends calls over ``aiohttp``, each once; it does not close the session.

    For the other parameters see ``BaseClient``.

    :param session: from ``shared_session``; shared by the clients of an event loop.
    :param in_thread: runs a blocking function in a thread.
    """

    def __init__(
        self,
        settings: Settings,
        session: aiohttp.ClientSession,
        *,
        in_thread: Callable[[Callable[[], Any]], Coroutine[Any, Any, Any]] = asyncio.to_thread,
        **options: Any,
    ) -> None:
        super().__init__(settings, **options)
        self.session = session
        self._run_in_thread = in_thread

    async def send(self, call: Call[T]) -> T:
        """
        Send a call once and return its answer's value.

        :raises WorkflowError: it failed.
        """
        return await self.attempt(call)

    async def _request(self, request: Request) -> Answer:
        return await exchange(self.session, request)

    async def _sleep(self, seconds: float) -> None:
        await clock.async_sleep(seconds)

    async def _in_thread(self, function: Callable[[], T]) -> T:
        value: T = await self._run_in_thread(function)
        return value

    async def _renewed(self, renewal: Renewal) -> None:
        async with clock.timeout(self.renewal_seconds):
            await asyncio.wrap_future(renewal)

    async def _carry_through(self, work: Coroutine[Any, Any, T]) -> T:
        return await carry_through(work)


async def carry_through(work: Coroutine[Any, Any, T]) -> T:
    """
    Await a coroutine to its end, even if the caller is cancelled, as Airflow does it once a second.

    :raises asyncio.CancelledError: the caller was cancelled; raised after the coroutine has ended.
    """
    task = asyncio.ensure_future(work)
    try:
        await async_tasks.ended(task)
    except asyncio.CancelledError:
        if not task.cancelled():
            task.exception()  # marks it as retrieved: the caller cannot receive it
        raise
    return task.result()
