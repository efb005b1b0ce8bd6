"""Which requests fail, and how, and those that are held; ``web/fault_injection.py`` makes them fail."""

from __future__ import annotations

import asyncio
import re
import threading
from concurrent.futures import Future
from dataclasses import field
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints
from pydantic.dataclasses import dataclass

from airflow_provider_workflow.emulator.settings import STRICT, Name

FRAMING = ("content-length", "transfer-encoding")
"""Headers that the server sends itself; a second one would make the connection unreadable."""


def _checked_header_name(name: str) -> str:
    if name.lower() in FRAMING:
        raise ValueError("is sent by the emulator itself; for a body that is cut off use the kind truncate")
    return name


HeaderName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9_!#$%&'*+.^`|~-]+$"),
    AfterValidator(_checked_header_name),
]
HeaderText = Annotated[str, StringConstraints(pattern=r"^[\x20-\x7e\x80-\xff]*$")]
"""Latin-1 without control characters."""


def _checked_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"must be a regular expression ({error})") from None
    return text


Pattern = Annotated[str, AfterValidator(_checked_pattern)]


@dataclass(config=STRICT)
class Fault:
    """
    Which requests fail, how many, and how.

    :param kind: ``status`` answers with another status; ``slow`` waits ``seconds``; ``hold`` waits
        until it is released; ``drop`` closes the connection; ``truncate`` sends half of the body;
        ``duplicate`` delivers a lease's messages twice.
    :param operation: operation of the requests (``lease``, ``ack``, ``token`` ...), or None for any.
    :param path: regular expression that their path contains, or None for any.
    :param times: number of requests that fail, 1 or more; None for all.
    :param after: number of matching requests that are served normally before, 0 or more.
    :param when: ``before`` or ``after`` the request takes effect. With ``before`` it has no effect, except
        for ``slow`` and ``hold``.
    :param status: status code for ``status``.
    :param headers: further headers, for ``status``, but neither ``Content-Length`` nor
        ``Transfer-Encoding``. 429 and 503 have ``Retry-After: 0`` and the rate-limit headers, unless they are
        named here.
    :param code: ``errors[0].code`` of the errors envelope that ``status`` sends by default.
    :param detail: its ``errors[0].detail``.
    :param json: sent instead of the envelope.
    :param text: sent instead of the envelope, unchanged.
    :param content_type: type of what is sent.
    :param seconds: delay in seconds, by the real clock.
    :raises ValueError: a value is not valid; the text names the field.
    """

    kind: Literal["status", "slow", "hold", "drop", "truncate", "duplicate"]
    operation: Name | None = None
    path: Pattern | None = None
    times: Annotated[int, Field(ge=1)] | None = 1
    after: Annotated[int, Field(ge=0)] = 0
    when: Literal["before", "after"] = "before"
    status: Annotated[int, Field(ge=200, le=599)] = 500
    headers: dict[HeaderName, HeaderText] = field(default_factory=dict)
    code: str = "error"
    detail: str = "A server error occurred."
    json: Any = None
    text: str | None = None
    content_type: HeaderText | None = None
    seconds: Annotated[float, Field(ge=0, le=1e12)] = 0.1
    met: int = field(default=0, init=False)

    def matches(self, operation: str, path: str) -> bool:
        """Whether a request matches, regardless of ``times`` and ``after``."""
        return self.operation in (None, operation) and re.search(self.path or "", path) is not None


class Faults:
    """
    The configured faults, in the order in which they were added. All methods are thread-safe.

    :param operations: the valid names of operations.
    """

    def __init__(self, operations: frozenset[str]) -> None:
        self.rules: list[Fault] = []
        self._operations = operations
        self._lock = threading.Lock()

    def add(self, **description: Any) -> Fault:
        """
        Add a fault, from the fields of :class:`Fault`.

        :raises ValueError: an unknown field or operation, or an invalid value: it would never match.
        """
        fault = Fault(**description)
        if fault.operation is not None and fault.operation not in self._operations:
            raise ValueError(f"operation: must be one of {', '.join(sorted(self._operations))}.")
        with self._lock:
            self.rules = [*self.rules, fault]
        return fault

    def take(self, operation: str, path: str) -> Fault | None:
        """Count a request, and return its fault: the first one that is not used up."""
        with self._lock:
            for fault in self.rules:
                if not fault.matches(operation, path):
                    continue
                fault.met += 1
                if fault.met > fault.after and (
                    fault.times is None or fault.met <= fault.after + fault.times
                ):
                    return fault
        return None

    def clear(self, fault: Fault | None = None) -> None:
        """Remove one fault, or all."""
        with self._lock:
            self.rules = [rule for rule in self.rules if fault is not None and rule is not fault]


class HeldRequests:
    """The requests that faults hold. All methods except :meth:`wait` are thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self._held: dict[int, tuple[dict[str, Any], Future[bool]]] = {}

    async def wait(self, operation: str, path: str, when: str) -> bool:
        """Wait until a request is released; return False if its connection should be dropped."""
        released: Future[bool] = Future()
        with self._changed:
            self._count += 1
            held = {"id": self._count, "operation": operation, "path": path, "when": when}
            self._held[self._count] = held, released
            self._changed.notify_all()
        return await asyncio.wrap_future(released)

    def listing(self) -> list[dict[str, Any]]:
        """List the held requests: ``id``, ``operation``, ``path``, ``when``."""
        with self._changed:
            return [held for held, _ in self._held.values()]

    def release(self, held_id: int | None = None, *, drop: bool = False) -> int:
        """
        Release requests.

        :param held_id: None for all.
        :param drop: close their connections instead.
        :return: the number of requests.
        """
        with self._changed:
            chosen = [key for key in self._held if held_id in (None, key)]
            for key in chosen:
                _, released = self._held.pop(key)
                if not released.done():
                    released.set_result(not drop)
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
            return self.listing()
