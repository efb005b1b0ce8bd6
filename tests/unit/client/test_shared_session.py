"""The session that the triggers of an event loop share."""

from __future__ import annotations

import tracemalloc
from contextlib import AsyncExitStack

from airflow_provider_workflow.client.over_aiohttp import shared_session
from airflow_provider_workflow.client.settings import trusted

USERS = 50


async def test_its_users_keep_no_certificates_of_their_own() -> None:
    size = len(trusted(True))
    async with AsyncExitStack() as stack:
        sessions = {await stack.enter_async_context(shared_session(trusted(True), 0))}
        tracemalloc.start()
        try:
            for _ in range(USERS):
                sessions.add(await stack.enter_async_context(shared_session(trusted(True), 0)))
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert len(sessions) == 1
    assert held < 2 * size
