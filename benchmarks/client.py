"""
What our client costs: time and CPU per call, beside bare sessions of the same libraries that send the same
requests to the same service, in a process of its own, and decode the same answers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import aiohttp
import requests

from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.aiohttp_transport import shared_session
from airflow_provider_workflow.client.async_client import AsyncWorkflowClient
from airflow_provider_workflow.client.call import Call
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.sync_client import WorkflowClient
from benchmarks.results import Row, compared, in_turns
from benchmarks.service import Service, service

ROUNDS = 30
QUICK_ROUNDS = 3
CALLS = 100
"""In each batch; a batch is one sample."""
MESSAGES = 100


@dataclass(frozen=True)
class Request:
    """
    One request, as a call of ours and as the arguments of a bare session.

    :param call: makes the call, each time anew, as a hook does.
    """

    what: str
    call: Callable[[], Call[Any]]
    arguments: dict[str, Any]


def requests_to(emulator: Service) -> list[Request]:
    """A short answer and a long one."""
    empty, full = emulator.open_inbox("empty"), emulator.open_inbox("full", MESSAGES)
    url = f"{emulator.connection['host']}/trigger-inbox/v1/inboxes"
    lease = {"lease_seconds": 300, "lease_limit": 100}
    return [
        Request(
            "lease of nothing",
            lambda: api.lease_messages(empty, **lease),
            {"method": "POST", "url": f"{url}/{empty}/messages/lease", "json": lease},
        ),
        Request(
            f"page of {MESSAGES} messages",
            lambda: api.list_messages(full, limit=MESSAGES),
            {"method": "GET", "url": f"{url}/{full}/messages", "params": {"limit": MESSAGES}},
        ),
    ]


def run(*, quick: bool) -> list[Row]:
    """Measure; ``quick`` with few repeats."""
    rounds = QUICK_ROUNDS if quick else ROUNDS
    with service() as emulator, asyncio.Runner() as runner:
        connection = {key: emulator.connection[key] for key in ("host", "login", "password", "extra")}
        settings = Settings.build(**connection)
        headers = {"Authorization": f"Bearer {emulator.token()}", "Accept": "application/json"}
        measured_requests = requests_to(emulator)
        with WorkflowClient(settings) as client, requests.Session() as session:
            session.headers.update(headers)
            ours = partial(_one_by_one, lambda request: client.send(request.call()))
            bare = partial(_one_by_one, lambda request: session.request(**request.arguments).json())
            rows = rows_of(measured_requests, ours, "bare requests", bare, rounds)
        return rows + runner.run(_of_aiohttp(settings, headers, measured_requests, rounds))


async def _of_aiohttp(
    settings: Settings, headers: dict[str, str], measured_requests: list[Request], rounds: int
) -> list[Row]:
    async with shared_session(None, 0) as shared, aiohttp.ClientSession(headers=headers) as session:
        client, loop = AsyncWorkflowClient(settings, shared), asyncio.get_running_loop()

        async def bare(request: Request) -> Any:
            async with session.request(**request.arguments) as answer:
                return await answer.json()

        def batch(send: Callable[[Request], Awaitable[Any]]) -> Callable[[Request], None]:
            async def one_by_one(request: Request) -> None:
                for _ in range(CALLS):
                    await send(request)

            return lambda request: asyncio.run_coroutine_threadsafe(one_by_one(request), loop).result()

        ours = batch(lambda request: client.send(request.call()))
        return await asyncio.to_thread(rows_of, measured_requests, ours, "bare aiohttp", batch(bare), rounds)


def _one_by_one(send: Callable[[Request], Any], request: Request) -> None:
    for _ in range(CALLS):
        send(request)


def rows_of(
    measured_requests: list[Request],
    ours: Callable[[Request], None],
    beside: str,
    bare: Callable[[Request], None],
    rounds: int,
) -> list[Row]:
    """Calls and CPU of each request: ours beside those of a bare session, in turns."""
    rows = []
    for request in measured_requests:
        ways = {"ours": partial(_sample, ours, request), "bare": partial(_sample, bare, request)}
        samples = in_turns(ways, rounds)
        (rates, used), (bare_rates, bare_used) = (zip(*series, strict=True) for series in samples.values())
        rows += [
            compared(f"{request.what}: calls", "1/s", rates, beside, bare_rates, at_least=0.8),
            compared(f"{request.what}: CPU", "ms", used, beside, bare_used, at_most=1.25),
        ]
    return rows


def _sample(batch: Callable[[Request], None], request: Request) -> tuple[float, float]:
    """Calls per second, and milliseconds of CPU per call."""
    began_at, used = time.perf_counter(), time.process_time()
    batch(request)
    used, seconds = time.process_time() - used, time.perf_counter() - began_at
    return CALLS / seconds, used / CALLS * 1000
