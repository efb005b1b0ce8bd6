"""
The faults that a soak exists to find, put in on purpose (``LEAK=1``): it has to end with exit code 1.

Whoever uses a session or listens to an event stream leaves it open when he goes.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from airflow_provider_workflow.client import event_stream, over_aiohttp

_right_session = over_aiohttp.shared_session
_sessions: list[Any] = []
_streams: list[event_stream._Stream] = []


@asynccontextmanager
async def shared_session(tls: ssl.SSLContext | None, streams: int) -> AsyncIterator[Any]:
    """A session of one's own, which nobody closes."""
    over_aiohttp._sessions.pop(asyncio.get_running_loop(), None)
    session = _right_session(tls, streams)
    _sessions.append(session)
    yield await session.__aenter__()


@asynccontextmanager
async def listen(client: Any, inbox_id: str, streams: int) -> AsyncIterator[event_stream.WakeUps]:
    """A stream of one's own, which nobody closes."""
    wake_ups = event_stream.WakeUps()
    stream = event_stream._Stream({wake_ups})
    stream.task = asyncio.create_task(event_stream._keep_open(client, inbox_id, stream))
    _streams.append(stream)
    yield wake_ups


def install() -> None:
    """Put the faults into this process."""
    over_aiohttp.shared_session = shared_session
    event_stream.listen = listen


async def close() -> None:
    """Close at last what was left open."""
    for stream in _streams:
        stream.task.cancel()
    await asyncio.wait({stream.task for stream in _streams})
    for session in _sessions:
        await session.__aexit__(None, None, None)
    _streams.clear()
    _sessions.clear()
