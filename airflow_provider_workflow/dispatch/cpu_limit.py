"""
The limit of CPU time for everything that evaluates a message: its schema, ``match``, routes, keys.

A sender can make a check slow: 32 characters that a regular expression tries in each way take hours. Such a
message must not hold up the others, so its check is interrupted, and the message is at fault itself.

CPU time is counted, not the time on the wall, so that a busy machine or a stopped process blames no message.
``ITIMER_REAL`` belongs to Airflow's ``execution_timeout``, so the timer is ``ITIMER_VIRTUAL``. It interrupts
Python code of the main thread only. A check in another thread, or in a library in C or Rust that looks for no
signals, runs to its end, and is judged then.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

from airflow_provider_workflow import clock

MAX_CHECK_SECONDS = 5.0
"""Seconds of CPU time that one check of one message may take."""
LOOKS = 10
"""So often within ``MAX_CHECK_SECONDS`` a check that goes on is interrupted again."""

Value = TypeVar("Value")
Result = TypeVar("Result")


class CheckTooSlowError(ValueError):
    """
    The check of a message took longer than ``MAX_CHECK_SECONDS``.

    :param name: of the argument that the check stands for: ``schema``, ``match`` and so on.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"its check took longer than {MAX_CHECK_SECONDS:g} s of CPU time ({name})")


class _Interruption(BaseException):
    """Ends a check; no ``Exception``, as validators catch those."""


def limited(name: str, check: Callable[[Value], Result], value: Value) -> Result:
    """
    Call a check with a value, for ``MAX_CHECK_SECONDS`` of CPU time at most.

    :param name: of the argument that the check stands for.
    :return: what the check returns.
    :raises CheckTooSlowError: it took longer, whatever it returned or raised.
    :raises Exception: what the check raised in time.
    """
    timer = _Timer()
    try:
        try:
            timer.start()
            result = check(value)
        finally:
            timer.is_on = False  # first, as whatever else is called may be interrupted
            timer.stop()
    except _Interruption:
        pass
    except Exception:
        if not timer.is_over:
            raise
    else:
        if not timer.is_over:
            return result
    raise CheckTooSlowError(name)


class _Timer:
    """Interrupts the main thread once it has used ``MAX_CHECK_SECONDS`` of CPU time."""

    def __init__(self) -> None:
        self.is_on = False
        self._began_at = clock.cpu_seconds()
        self._handler: Any = None
        self._timer = (0.0, 0.0)

    @property
    def is_over(self) -> bool:
        return clock.cpu_seconds() - self._began_at > MAX_CHECK_SECONDS

    def start(self) -> None:
        """Start, if this thread can be interrupted."""
        # None also for a handler that Python could not put back.
        self._handler = signal.getsignal(signal.SIGVTALRM) if _is_interruptible() else None
        if self._handler is None:
            return
        self.is_on = True
        signal.signal(signal.SIGVTALRM, self._interrupt)
        # Again and again: code of a schema may catch the first one, and the time of all threads is counted.
        seconds = MAX_CHECK_SECONDS
        self._timer = signal.setitimer(signal.ITIMER_VIRTUAL, seconds, seconds / LOOKS)

    def stop(self) -> None:
        """Put back the handler and the timer from before."""
        if self._handler is None:
            return
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, self._handler)
        seconds, interval = self._timer
        if seconds:
            spent = clock.cpu_seconds() - self._began_at
            signal.setitimer(signal.ITIMER_VIRTUAL, max(seconds - spent, 0.001), interval)

    def _interrupt(self, _signal: int, _frame: FrameType | None) -> None:
        if self.is_on and self.is_over:
            raise _Interruption


def _is_interruptible() -> bool:
    """Whether Python runs signal handlers in this thread."""
    return threading.current_thread() is threading.main_thread()
