"""
A bare ``aiohttp`` loop that polls as watchers do, in a process of its own, and what either costs.

``python -m tests.benchmarks.polling`` reads what to poll from stdin and prints its cost, both as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import asdict, dataclass
from typing import Any

from tests.benchmarks.process import MEGABYTE, cpu_seconds, resident

POLL_SECONDS = 3.0
SETTLE_SECONDS = 15.0
CONNECTIONS = 600


@dataclass(frozen=True)
class Kind:
    """
    One kind of watcher.

    :param trigger: name of its class.
    :param operation: its polls, as the emulator counts them.
    :param method: of the request that a poll is.
    :param path: of it, below the inbox.
    :param body: of it.
    """

    trigger: str
    operation: str
    method: str
    path: str
    body: dict[str, int] | None = None


KINDS = {
    "notice": Kind("WorkflowInboxNoticeTrigger", "list_messages", "GET", "messages"),
    "event": Kind(
        "WorkflowInboxEventTrigger",
        "lease",
        "POST",
        "messages/lease",
        {"lease_seconds": 600, "lease_limit": 100},
    ),
}


@dataclass(frozen=True)
class Cost:
    """
    What a process took.

    :param polls: that it made meanwhile.
    :param used: seconds of CPU.
    :param resident: bytes of memory, in the end.
    """

    polls: int
    used: float
    resident: int

    @property
    def milliseconds_per_poll(self) -> float:
        return self.used / self.polls * 1000

    @property
    def megabytes(self) -> float:
        return self.resident / MEGABYTE


async def poll_barely(
    base_url: str, token: str, ids: list[str], kind: dict[str, Any], seconds: float
) -> Cost:
    """Poll all inboxes at the pace of the watchers; measured once the connections stand."""
    import aiohttp

    polls = 0
    of = Kind(**kind)

    async def poll(session: aiohttp.ClientSession, inbox_id: str) -> None:
        nonlocal polls
        while True:
            address = f"{base_url}/trigger-inbox/v1/inboxes/{inbox_id}/{of.path}"
            async with session.request(of.method, address, json=of.body) as answer:
                assert json.loads(await answer.read())["results"] == []
            polls += 1
            await asyncio.sleep(POLL_SECONDS)

    headers, connector = {"Authorization": f"Bearer {token}"}, aiohttp.TCPConnector(limit=CONNECTIONS)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
        tasks = [asyncio.ensure_future(poll(session, inbox_id)) for inbox_id in ids]
        await asyncio.sleep(SETTLE_SECONDS)
        polls, used = 0, cpu_seconds(os.getpid())
        await asyncio.sleep(seconds)
        used = cpu_seconds(os.getpid()) - used
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        return Cost(polls, used, resident(os.getpid()))


if __name__ == "__main__":
    print(json.dumps(asdict(asyncio.run(poll_barely(**json.load(sys.stdin))))))
