"""
A bare ``aiohttp`` loop that polls as watchers do, in a process of its own, and what it takes.

``python -m benchmarks.polling`` reads what to poll from stdin and prints what was seen, both as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict
from typing import Any

from benchmarks.process import Seen, Watch, Window

POLL_SECONDS = 5.0
SETTLE_SECONDS = 10.0
CONNECTIONS = 600
"""At most, as in a triggerer."""


def poll_barely(base_url: str, token: str, ids: list[str], windows: int, tick: float = 0.0) -> Seen:
    """
    Have all inboxes listed every 5 s, and the answers decoded, with nothing around it.

    :param windows: to measure, each as long as the time from one poll to the next.
    :param tick: seconds; polls go out at multiples of it, as those of watchers do; 0 for none.
    """
    given = {"base_url": base_url, "token": token, "ids": ids, "windows": windows, "tick": tick}
    command = [sys.executable, "-m", "benchmarks.polling"]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    return Seen(**{**told, "windows": [Window(**each) for each in told["windows"]]})


async def poll(base_url: str, token: str, ids: list[str], windows: int, tick: float) -> Seen:
    """Poll, and measure once the connections stand."""
    import aiohttp

    polls = 0

    async def pause(seconds: float) -> None:
        late = (time.monotonic() + seconds) % tick if tick else 0.0
        await asyncio.sleep(seconds + tick - late if late else seconds)

    async def one(session: aiohttp.ClientSession, number: int, inbox_id: str) -> None:
        nonlocal polls
        # Spread over the interval: what is sent in one burst costs a fraction of it.
        await pause(POLL_SECONDS * number / len(ids))
        while True:
            address = f"{base_url}/trigger-inbox/v1/inboxes/{inbox_id}/messages"
            async with session.get(address) as answer:
                assert json.loads(await answer.read())["results"] == []
            polls += 1
            await pause(POLL_SECONDS)

    headers, connector = {"Authorization": f"Bearer {token}"}, aiohttp.TCPConnector(limit=CONNECTIONS)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
        tasks = [asyncio.ensure_future(one(session, number, inbox_id)) for number, inbox_id in enumerate(ids)]
        await asyncio.sleep(SETTLE_SECONDS)
        watch = Watch(os.getpid(), lambda: polls)
        for _ in range(windows):
            await asyncio.sleep(POLL_SECONDS)
            watch.window()
        seen = watch.seen()
        for task in tasks:
            if task.done():
                task.result()  # raises what ended it
            task.cancel()
        await asyncio.wait(tasks)
    return seen


def main(given: dict[str, Any]) -> None:
    """Poll, and print what was seen."""
    print(json.dumps(asdict(asyncio.run(poll(**given)))))


if __name__ == "__main__":
    main(json.load(sys.stdin))
