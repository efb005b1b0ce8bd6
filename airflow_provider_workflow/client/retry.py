"""When a call is sent again, and how long it waits before: retry policy and rate gates."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tenacity import RetryCallState, retry_base, stop_after_attempt, wait_random_exponential

from airflow_provider_workflow import clock
from airflow_provider_workflow.client.call import Call, Family
from airflow_provider_workflow.client.errors import RateLimitError, ServerError, TransportError, WorkflowError
from airflow_provider_workflow.client.settings import Settings

ATTEMPTS = 5
BACKOFF_SECONDS = 1.0
BACKOFF_CAP_SECONDS = 20.0
LONGEST_WAIT_SECONDS = 60.0
"""
How long a call waits until the service accepts calls again. Where that takes longer it fails with
``RateLimitError``: a task frees its slot, and a trigger logs that it waits, and for how long.
"""
HEAD_START_SECONDS = 0.5
"""How much earlier than others a waiting acknowledgement goes through a gate that opens."""


class RetryIfItMayHelp(retry_base):
    """
    Repeat a call after a fault that may pass, as far as the call allows it.

    :param longest_wait: seconds that the caller is ready to wait at a rate gate; None for any time.
    """

    def __init__(self, call: Call[Any], longest_wait: float | None = None) -> None:
        self.call = call
        self.longest_wait = longest_wait

    def __call__(self, retry_state: RetryCallState) -> bool:
        error = retry_state.outcome.exception() if retry_state.outcome else None
        if isinstance(error, WorkflowError) and error.exhausted:
            return False
        if isinstance(error, RateLimitError):
            # Status 0: the gate itself refused to wait that long; the next attempt would meet it as well.
            return error.status != 0 and not self._too_long(error.retry_after)
        if isinstance(error, TransportError):
            return not error.permanent and (self.call.repeatable or not error.sent)
        if isinstance(error, ServerError):
            return self.call.repeatable and not self._too_long(error.retry_after)
        return False

    def _too_long(self, seconds: float | None) -> bool:
        return self.longest_wait is not None and seconds is not None and seconds > self.longest_wait


def policy(call: Call[Any], attempts: int, longest_wait: float | None) -> dict[str, Any]:
    """
    Arguments for tenacity's ``Retrying`` and ``AsyncRetrying``: 5 attempts, capped exponential
    back-off with jitter. ``Retry-After`` is obeyed by the rate gate, which every attempt passes.
    """
    return {
        "retry": RetryIfItMayHelp(call, longest_wait),
        "stop": stop_after_attempt(attempts),
        "wait": wait_random_exponential(multiplier=BACKOFF_SECONDS, max=BACKOFF_CAP_SECONDS),
        "reraise": True,
    }


@dataclass
class Gate:
    """
    Keeps a family of calls back while the service wants no more of them.

    :param opens_at: when calls pass again, by ``clock.monotonic``.
    """

    opens_at: float = 0.0
    _urgent_waiting: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def close(self, seconds: float) -> None:
        """Let nothing pass for this many seconds; never opens a gate earlier."""
        self.opens_at = max(self.opens_at, clock.monotonic() + seconds)

    def delay(self, *, urgent: bool) -> float:
        """Seconds until a call may pass. While acknowledgements wait, others wait a moment longer."""
        opens_at = self.opens_at
        if not urgent and self._urgent_waiting:
            opens_at += HEAD_START_SECONDS
        return max(0.0, opens_at - clock.monotonic())

    @contextmanager
    def waiting(self, *, urgent: bool) -> Iterator[None]:
        """Counts a waiting acknowledgement for as long as it waits."""
        change = 1 if urgent else 0
        with self._lock:
            self._urgent_waiting += change
        try:
            yield
        finally:
            with self._lock:
                self._urgent_waiting -= change


class Gates:
    """One gate for each (host, client, family), so that none of them delays another."""

    def __init__(self) -> None:
        self._gates: dict[tuple[str, str, Family], Gate] = {}

    def of(self, settings: Settings, family: Family) -> Gate:
        """The gate that this connection's calls of a family pass."""
        base = settings.token_url if family is Family.TOKEN else settings.base_url
        key = (base, settings.client_id, family)
        return self._gates.get(key) or self._gates.setdefault(key, Gate())

    def forget_waiting(self) -> None:
        """In a forked child: who waits, waits in the parent; how long the service wants peace still holds."""
        self._gates = {key: Gate(gate.opens_at) for key, gate in self._gates.items()}


GATES = Gates()
"""The gates that all clients of this process share."""

os.register_at_fork(after_in_child=GATES.forget_waiting)


def refuse_long_wait(call: Call[Any], seconds: float, longest: float | None) -> None:
    """
    :param longest: seconds that the caller is ready to wait; None for any time.
    :raises RateLimitError: the gate stays closed for longer; nothing was sent.
    """
    if longest is not None and seconds > longest:
        raise RateLimitError(
            f"{call.name} was not sent: the service accepts no {call.family.value} calls for {seconds:.0f} s",
            status=0,
            retry_after=seconds,
        )
