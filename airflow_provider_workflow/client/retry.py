"""When a call is sent again, and how long before that it waits."""

from __future__ import annotations

from typing import Any

from tenacity import RetryCallState, retry_base, stop_after_attempt, wait_random_exponential

from airflow_provider_workflow.client.call import Call
from airflow_provider_workflow.client.errors import RateLimitError, ServerError, TransportError, WorkflowError

ATTEMPTS = 5
BACKOFF_SECONDS = 1.0
BACKOFF_CAP_SECONDS = 20.0
LONGEST_WAIT_SECONDS = 60.0
"""
How long a call waits until the service accepts calls again. Where that takes longer it fails with
``RateLimitError``: a task frees its slot, and a trigger logs that it waits, and for how long.
"""


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
