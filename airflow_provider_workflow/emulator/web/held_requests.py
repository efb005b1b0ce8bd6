"""Requests that wait until they are released, so that a process can be killed at an exact point."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Held:
    """
    A held request.

    :param fault: id of the fault that holds it.
    :param when: ``before`` or ``after`` it takes effect.
    """

    id: int
    fault: int
    operation: str
    path: str
    when: str
    loop: asyncio.AbstractEventLoop = field(repr=False)
    released: asyncio.Future[bool] = field(repr=False)

    def view(self) -> dict[str, Any]:
        """The request as JSON."""
        return {name: getattr(self, name) for name in ("id", "fault", "operation", "path", "when")}


class HeldRequests:
    """The held requests. All methods except :meth:`wait` are thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self._held: dict[int, Held] = {}

    async def wait(self, fault: int, operation: str, path: str, when: str) -> bool:
        """Wait until a request is released; return False if its connection should be dropped."""
        loop = asyncio.get_running_loop()
        with self._changed:
            self._count += 1
            held = Held(self._count, fault, operation, path, when, loop, loop.create_future())
            self._held[held.id] = held
            self._changed.notify_all()
        return await held.released

    def listing(self) -> list[dict[str, Any]]:
        """List the held requests."""
        with self._changed:
            return [held.view() for held in self._held.values()]

    def release(self, held_id: int | None = None, *, drop: bool = False) -> int:
        """
        Release requests.

        :param held_id: None for all.
        :param drop: close their connections instead.
        :return: the number of requests.
        """
        with self._changed:
            chosen = [held for held in self._held.values() if held_id in (None, held.id)]
            for held in chosen:
                del self._held[held.id]
                held.loop.call_soon_threadsafe(_resolve, held.released, not drop)
        return len(chosen)

    def wait_until_held(self, count: int = 1, timeout: float = 10) -> list[dict[str, Any]]:
        """
        Block until ``count`` requests are held.

        :param timeout: seconds.
        :raises TimeoutError: there are fewer after that time.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._held) >= count, timeout):
                raise TimeoutError(f"{len(self._held)} of {count} requests are held after {timeout} s")
            return [held.view() for held in self._held.values()]


def _resolve(future: asyncio.Future[bool], go_on: bool) -> None:
    if not future.done():
        future.set_result(go_on)
