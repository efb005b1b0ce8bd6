"""Which requests fail, and how, and those that are held; ``web/fault_injection.py`` makes them fail."""

from __future__ import annotations

import asyncio
import re
import threading
from dataclasses import asdict, dataclass, field
from typing import Any

from airflow_provider_workflow.emulator import checks

KINDS = (
    "status",
    "slow",
    "hold",
    "drop",
    "trickle",
    "truncate",
    "not_json",
    "wrong_type",
    "big",
    "redirect",
    "duplicate",
)


@dataclass
class Fault:
    """
    Which requests fail, how many, and how.

    :param kind: ``status`` answers with another status; ``slow`` waits ``seconds``; ``hold`` waits
        until it is released; ``drop`` closes the connection; ``trickle`` sends one byte every
        ``seconds``, without end; ``truncate`` sends half of the body; ``not_json`` sends ``text``;
        ``wrong_type`` sends the body as ``content_type``; ``big`` adds ``size`` bytes to the body;
        ``redirect`` points to ``location``; ``duplicate`` delivers a lease's messages twice.
    :param operation: operation of the requests (``lease``, ``ack``, ``token`` ...), or None for any.
    :param method: their method, or None for any.
    :param path: regular expression that their path contains, or None for any.
    :param times: number of requests that fail, 1 or more; None for all.
    :param after: number of matching requests that are served normally before, 0 or more.
    :param when: ``before`` or ``after`` the request takes effect. With ``before`` it has no effect, except
        for ``slow`` and ``hold``.
    :param status: status code for ``status``, ``redirect`` and ``not_json``.
    :param headers: further headers, for ``status``. 429 and 503 have ``Retry-After: 0`` and the rate-limit
        headers, unless they are named here.
    :param code: ``errors[0].code`` of the errors envelope that ``status`` sends by default.
    :param detail: its ``errors[0].detail``.
    :param json: sent instead of the envelope.
    :param text: sent instead of the envelope, unchanged.
    :param content_type: type of what is sent.
    :param seconds: delay in seconds, by the real clock.
    :param size: bytes.
    :param location: target of a redirect; by default the same URL with another host name.
    """

    kind: str = checks.field("", checks.one_of(*KINDS))
    operation: str | None = checks.field(None, checks.nullable(checks.name))
    method: str | None = checks.field(None, checks.nullable(checks.name))
    path: str | None = checks.field(None, checks.nullable(checks.pattern))
    times: int | None = checks.field(1, checks.nullable(checks.whole(1)))
    after: int = checks.field(0, checks.whole(0))
    when: str = checks.field("before", checks.one_of("before", "after"))
    status: int | None = checks.field(None, checks.nullable(checks.whole(200, 599)))
    headers: dict[str, str] = checks.field({}, checks.headers)
    code: str = checks.field("error", checks.string)
    detail: str = checks.field("A server error occurred.", checks.string)
    json: Any = checks.field(None, checks.anything)
    text: str | None = checks.field(None, checks.nullable(checks.string))
    content_type: str | None = checks.field(None, checks.nullable(checks.header))
    seconds: float = checks.field(0.1, checks.number(0))
    size: int = checks.field(10_000_000, checks.whole(0))
    location: str | None = checks.field(None, checks.nullable(checks.header))
    id: int = 0
    met: int = 0

    def matches(self, operation: str, method: str, path: str) -> bool:
        """Whether a request matches, regardless of ``times`` and ``after``."""
        return (
            self.operation in (None, operation)
            and self.method in (None, method)
            and (self.path is None or re.search(self.path, path) is not None)
        )


class Faults:
    """
    The configured faults, in the order in which they were added. All methods are thread-safe.

    ``operations`` are the valid names of operations; None allows any.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made = 0
        self.rules: list[Fault] = []
        self.operations: frozenset[str] | None = None

    def add(self, **description: Any) -> Fault:
        """
        Add a fault, from the fields of :class:`Fault`.

        :raises ValueError: an unknown field or operation, or a value that is not valid: a fault that never
            matches would let a test pass for the wrong reason.
        """
        checks.verify(description, checks.checks_of(Fault), ("kind",))
        self.check_operation(description.get("operation"))
        with self._lock:
            self._made += 1
            fault = Fault(**description, id=self._made)
            self.rules = [*self.rules, fault]
        return fault

    def check_operation(self, operation: str | None) -> None:
        """
        Check the name of an operation; None stands for any.

        :raises ValueError: there is no such operation.
        """
        if operation is not None and self.operations is not None:
            checks.verify({"operation": operation}, {"operation": checks.one_of(*sorted(self.operations))})

    def take(self, operation: str, method: str, path: str) -> Fault | None:
        """Count a request, and return its fault: the first one that is not used up."""
        with self._lock:
            for fault in self.rules:
                if not fault.matches(operation, method, path):
                    continue
                fault.met += 1
                if fault.met <= fault.after:
                    continue
                if fault.times is None or fault.met <= fault.after + fault.times:
                    return fault
        return None

    def uncount(self, fault: Fault) -> None:
        """Undo the count of a request that the fault could not affect."""
        with self._lock:
            fault.met -= 1

    def clear(self, fault_id: int | None = None) -> int:
        """Remove one fault, or all; return the number of those that were removed."""
        with self._lock:
            before = len(self.rules)
            self.rules = [fault for fault in self.rules if fault_id not in (None, fault.id)]
            return before - len(self.rules)

    def listing(self) -> list[dict[str, Any]]:
        """List the faults, with the number of requests that each has matched."""
        with self._lock:
            return [asdict(fault) for fault in self.rules]


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
