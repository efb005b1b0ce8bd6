"""Requests that wait until they are released, so that a process can be killed at an exact point."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Held:
    """
    A request that waits.

    :param fault: the rule that holds it.
    :param when: ``before`` or ``after`` its effect.
    """

    id: int
    fault: int
    operation: str
    path: str
    when: str
    loop: asyncio.AbstractEventLoop = field(repr=False)
    released: asyncio.Future[bool] = field(repr=False)

    def view(self) -> dict[str, Any]:
        """Show it as JSON."""
        return {name: getattr(self, name) for name in ("id", "fault", "operation", "path", "when")}


class HeldRequests:
    """The requests that wait. All methods but :meth:`wait` are thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self._held: dict[int, Held] = {}

    async def wait(self, fault: int, operation: str, path: str, when: str) -> bool:
        """Wait for the release of a request; return False where it is to be dropped instead."""
        loop = asyncio.get_running_loop()
        with self._changed:
            self._count += 1
            held = Held(self._count, fault, operation, path, when, loop, loop.create_future())
            self._held[held.id] = held
            self._changed.notify_all()
        return await held.released

    def listing(self) -> list[dict[str, Any]]:
        """List the requests that wait."""
        with self._changed:
            return [held.view() for held in self._held.values()]

    def release(self, held_id: int | None = None, *, drop: bool = False) -> int:
        """
        Release requests.

        :param held_id: which; None for all.
        :param drop: cut their connections instead of going on.
        :return: how many.
        """
        with self._changed:
            chosen = [held for held in self._held.values() if held_id in (None, held.id)]
            for held in chosen:
                del self._held[held.id]
                held.loop.call_soon_threadsafe(_resolve, held.released, not drop)
        return len(chosen)

    def wait_until_held(self, count: int = 1, timeout: float = 10) -> list[dict[str, Any]]:
        """
        Block a test until so many requests wait.

        :param timeout: seconds.
        :raises TimeoutError: when they do not come.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._held) >= count, timeout):
                raise TimeoutError(f"{len(self._held)} of {count} requests are held after {timeout} s")
            return [held.view() for held in self._held.values()]


def _resolve(future: asyncio.Future[bool], go_on: bool) -> None:
    if not future.done():
        future.set_result(go_on)
