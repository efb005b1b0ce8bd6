"""
A triggerer without an Airflow around it: our triggers alone on one event loop, in a process of its own.

``python -m benchmarks.scale.hollow`` reads what to watch from the first line of stdin, as JSON, watches
until stdin closes, and prints what it saw, as JSON.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger
from benchmarks.scale.files import POLL_SECONDS

WATCHDOG_SECONDS = 0.1
"""How often the loop is looked at, as Airflow's triggerer does."""
CREATED_PER_SECOND = 250
"""Triggers; all at once would not be what a triggerer does, which gets some in each of its loops."""
END_SECONDS = 60.0


@dataclass
class Noticed:
    """
    What a hollow triggerer saw.

    :param late: when the event loop was late, in seconds since 1970, and by how many seconds.
    :param collected: when Python had collected garbage, which stops the loop, and in how many seconds.
    :param events: the inbox of each event, and when the trigger emitted it.
    :param ended: how many triggers ended by themselves, which none should.
    """

    late: list[tuple[float, float]] = field(default_factory=list)
    collected: list[tuple[float, float]] = field(default_factory=list)
    events: list[tuple[str, float]] = field(default_factory=list)
    ended: int = 0

    def lateness(self, since: float, until: float) -> list[float]:
        """By how many seconds the loop was late, each time in a window of seconds since 1970."""
        return _within(self.late, since, until)

    def collections(self, since: float, until: float) -> list[float]:
        """How many seconds each collection of garbage in a window took."""
        return _within(self.collected, since, until)

    def first_event(self, inbox: str, since: float) -> float | None:
        """When the first event of an inbox after a moment was emitted."""
        return next((at for name, at in self.events if name == inbox and at >= since), None)


def _within(measured: list[tuple[float, float]], since: float, until: float) -> list[float]:
    return [seconds for at, seconds in measured if since <= at <= until]


@dataclass(frozen=True)
class Hollow:
    """A hollow triggerer that watches, in another process."""

    process: subprocess.Popen[str]

    @property
    def pid(self) -> int:
        return self.process.pid

    def end(self) -> Noticed:
        """End it; what it saw."""
        told, _ = self.process.communicate(timeout=END_SECONDS)
        return Noticed(**json.loads(told))


@contextmanager
def hollow(count: int, env: dict[str, str]) -> Iterator[Hollow]:
    """
    A hollow triggerer of ``inbox_0`` and so on; killed in the end if it still runs.

    :param env: its environment, with the connection.
    """
    command = [sys.executable, "-m", "benchmarks.scale.hollow"]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=env, **pipes) as process:
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps({"count": count}) + "\n")
            process.stdin.flush()
            yield Hollow(process)
        finally:
            process.kill()


async def watch(count: int, ended: asyncio.Event) -> Noticed:
    """Watch until ``ended`` is set."""
    noticed = Noticed()
    collections = _Collections(noticed)
    gc.callbacks.append(collections)
    watchdog = asyncio.create_task(_look_at_loop(noticed))
    tasks = []
    for number in range(count):
        tasks.append(asyncio.create_task(_run(f"inbox_{number}", noticed)))
        if number % (CREATED_PER_SECOND // 10) == 0:
            await asyncio.sleep(0.1)
        if ended.is_set():
            break
    await ended.wait()
    gc.callbacks.remove(collections)
    noticed.ended = sum(task.done() for task in tasks)
    for task in (watchdog, *tasks):
        task.cancel()
    await asyncio.wait([watchdog, *tasks], timeout=END_SECONDS / 2)
    return noticed


async def _run(inbox: str, noticed: Noticed) -> None:
    """Run one trigger, as Airflow's triggerer does."""
    import greenback

    await greenback.ensure_portal()
    trigger = WorkflowInboxNoticeTrigger(inbox, poll_interval=POLL_SECONDS)
    async for event in trigger.run():
        noticed.events.append((event.payload["inbox"], time.time()))


class _Collections:
    """Called by Python when it begins to collect garbage, and when it has ended."""

    def __init__(self, noticed: Noticed) -> None:
        self._noticed = noticed
        self._began_at = 0.0

    def __call__(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._began_at = time.monotonic()
        else:
            self._noticed.collected.append((time.time(), time.monotonic() - self._began_at))


async def _look_at_loop(noticed: Noticed) -> None:
    while True:
        began_at = time.monotonic()
        await asyncio.sleep(WATCHDOG_SECONDS)
        noticed.late.append((time.time(), time.monotonic() - began_at - WATCHDOG_SECONDS))


async def _main() -> Noticed:
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    count = json.loads(sys.stdin.readline())["count"]

    def closed() -> None:
        loop.remove_reader(sys.stdin)
        ended.set()

    loop.add_reader(sys.stdin, closed)
    return await watch(count, ended)


if __name__ == "__main__":
    # What is logged must not fill the pipe, which is read in the end.
    with os.fdopen(os.dup(1), "w") as answer:
        os.dup2(2, 1)
        json.dump(asdict(asyncio.run(_main())), answer)
