"""When a call is retried, and after which delay."""

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
Maximum time that a call waits until the service accepts calls again. If that takes longer, it fails with
``RateLimitError``: a task frees its slot, and a trigger logs how long it waits.
"""


class RetryIfItMayHelp(retry_base):
    """
    Retry a call after a transient error, if the call can be repeated.

    :param longest_wait: maximum wait at a rate gate in seconds; None: no maximum.
    """

    def __init__(self, call: Call[Any], longest_wait: float | None = None) -> None:
        self.call = call
        self.longest_wait = longest_wait

    def __call__(self, retry_state: RetryCallState) -> bool:
        error = retry_state.outcome.exception() if retry_state.outcome else None
        if isinstance(error, WorkflowError) and error.exhausted:
            return False
        if isinstance(error, RateLimitError):
            # Status 0: the wait at the gate would be too long, and would be for the next attempt as well.
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
    Arguments for tenacity's ``Retrying`` and ``AsyncRetrying``: capped exponential back-off with jitter.

    The rate gate, at which every attempt waits, obeys ``Retry-After``.

    :param attempts: maximum number of attempts, 1 or more.
    :param longest_wait: see ``RetryIfItMayHelp``.
    """
    return {
        "retry": RetryIfItMayHelp(call, longest_wait),
        "stop": stop_after_attempt(attempts),
        "wait": wait_random_exponential(multiplier=BACKOFF_SECONDS, max=BACKOFF_CAP_SECONDS),
        "reraise": True,
    }
