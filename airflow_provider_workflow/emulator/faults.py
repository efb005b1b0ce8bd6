"""Which requests fail, and how; ``web/fault_injection.py`` makes them fail."""

from __future__ import annotations

import re
import threading
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from airflow_provider_workflow.emulator.rules.errors import invalid_field

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
    :param headers: further headers, for ``status``.
    :param code: ``errors[0].code`` of the errors envelope that ``status`` sends by default.
    :param detail: its ``errors[0].detail``.
    :param json: sent instead of the envelope.
    :param text: sent instead of the envelope, unchanged.
    :param content_type: type of what is sent.
    :param seconds: delay in seconds, by the real clock.
    :param size: bytes.
    :param location: target of a redirect; by default the same URL with another host name.
    """

    kind: str
    operation: str | None = None
    method: str | None = None
    path: str | None = None
    times: int | None = 1
    after: int = 0
    when: str = "before"
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    code: str = "error"
    detail: str = "A server error occurred."
    json: Any = None
    text: str | None = None
    content_type: str | None = None
    seconds: float = 0.1
    size: int = 10_000_000
    location: str | None = None
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

        :raises ServiceError: 400 for an unknown field, kind or operation: a fault that never matches
            would let a test pass for the wrong reason.
        """
        self._check(description)
        with self._lock:
            self._made += 1
            fault = Fault(**description, id=self._made)
            self.rules = [*self.rules, fault]
        return fault

    def _check(self, description: dict[str, Any]) -> None:
        unknown = set(description) - {each.name for each in fields(Fault)} | set(description) & {"id", "met"}
        if unknown:
            raise invalid_field(sorted(unknown)[0], "a fault has no such field.")
        if description.get("kind") not in KINDS:
            raise invalid_field("kind", f"must be one of {', '.join(KINDS)}.")
        if description.get("when", "before") not in ("before", "after"):
            raise invalid_field("when", "must be before or after.")
        operation = description.get("operation")
        if operation is not None and self.operations is not None and operation not in self.operations:
            raise invalid_field("operation", f"must be one of {', '.join(sorted(self.operations))}.")
        try:
            re.compile(description.get("path") or "")
        except re.error as error:
            raise invalid_field("path", f"is not a regular expression: {error}.") from None

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

    def clear(self, fault_id: int | None = None) -> None:
        """Remove one fault, or all."""
        with self._lock:
            self.rules = [each for each in self.rules if fault_id not in (None, each.id)]

    def listing(self) -> list[dict[str, Any]]:
        """List the faults, with the number of requests that each has matched."""
        with self._lock:
            return [asdict(each) for each in self.rules]
