"""When a call is sent again, and how long it waits before: retry policy and rate gates."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tenacity import RetryCallState, retry_base, stop_after_attempt, wait_random_exponential

from airflow_provider_workflow.client.call import Call, Family
from airflow_provider_workflow.client.errors import RateLimitError, ServerError, TransportError, WorkflowError
from airflow_provider_workflow.client.settings import Settings

ATTEMPTS = 5
BACKOFF_SECONDS = 1.0
BACKOFF_CAP_SECONDS = 20.0
LONGEST_WAIT_IN_A_TASK = 60.0
"""Seconds; a task that is told to wait longer fails with ``RateLimitError`` instead of holding its slot."""
HEAD_START_SECONDS = 0.5
"""How much earlier than others a waiting acknowledgement goes through a gate that opens."""


class RetryIfItMayHelp(retry_base):
    """Repeat a call after a fault that may pass, as far as the call allows it."""

    def __init__(self, call: Call[Any]) -> None:
        self.call = call

    def __call__(self, retry_state: RetryCallState) -> bool:
        error = retry_state.outcome.exception() if retry_state.outcome else None
        if isinstance(error, WorkflowError) and error.exhausted:
            return False
        if isinstance(error, RateLimitError):
            # Status 0: the gate itself refused to wait that long, so waiting is no cure.
            return error.status != 0
        if isinstance(error, TransportError):
            return not error.permanent and (self.call.repeatable or not error.sent)
        return isinstance(error, ServerError) and self.call.repeatable


def policy(call: Call[Any], attempts: int = ATTEMPTS) -> dict[str, Any]:
    """
    Arguments for tenacity's ``Retrying`` and ``AsyncRetrying``: 5 attempts, capped exponential
    back-off with jitter. ``Retry-After`` is obeyed by the rate gate, which every attempt passes.
    """
    return {
        "retry": RetryIfItMayHelp(call),
        "stop": stop_after_attempt(attempts),
        "wait": wait_random_exponential(multiplier=BACKOFF_SECONDS, max=BACKOFF_CAP_SECONDS),
        "reraise": True,
    }


@dataclass
class Gate:
    """
    Keeps a family of calls back while the service wants no more of them.

    :param opens_at: ``time.monotonic()`` from which calls pass.
    """

    opens_at: float = 0.0
    _urgent_waiting: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def close(self, seconds: float) -> None:
        """Let nothing pass for this many seconds; never opens a gate earlier."""
        self.opens_at = max(self.opens_at, time.monotonic() + seconds)

    def delay(self, *, urgent: bool) -> float:
        """Seconds until a call may pass. While acknowledgements wait, others wait a moment longer."""
        opens_at = self.opens_at
        if not urgent and self._urgent_waiting:
            opens_at += HEAD_START_SECONDS
        return max(0.0, opens_at - time.monotonic())

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


_gates: dict[tuple[str, str, Family], Gate] = {}


def gate(settings: Settings, family: Family) -> Gate:
    """The gate of this (host, client, family), shared by the whole process."""
    base = settings.token_url if family is Family.TOKEN else settings.base_url
    return _gates.setdefault((base, settings.client_id, family), Gate())


def refuse_long_wait(call: Call[Any], seconds: float, longest: float | None) -> None:
    """
    :param longest: seconds that the caller is ready to wait; None for any time.
    :raises RateLimitError: the gate stays closed for longer; nothing was sent.
    """
    if longest is not None and seconds > longest:
        raise RateLimitError(
            f"{call.name} was not sent: the service wants no {call.family.value} calls for {seconds:.0f} s",
            status=0,
            retry_after=seconds,
        )
