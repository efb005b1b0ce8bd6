"""Pauses between the tries of a task that double after errors, and not after kills (Airflow 3.3+)."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from airflow.sdk import RetryDecision, RetryPolicy

log = logging.getLogger(__name__)

ERRORS_KEY = "workflow_failed_tries"
LONGEST_PAUSE = timedelta(days=1)
"""Airflow's own limit, where ``max_retry_delay`` is not given."""


class ErrorBackoff(RetryPolicy):
    """
    Airflow's exponential back-off, for the tries that an exception ended.

    Airflow counts tries, and so doubles the pause after a worker that was killed as well, though nothing
    is wrong with the service or the target. Airflow evaluates a policy after exceptions alone; after a kill
    the task's plain ``retry_delay`` applies.

    :param delay: the pause after the first error.
    :param factor: by which it grows with each further one, above 1.
    :param longest: what it grows to; a number is one of seconds.
    """

    def __init__(self, delay: timedelta, factor: float, longest: timedelta | float | None) -> None:
        self._delay = delay
        self._factor = factor
        if longest is None:
            longest = LONGEST_PAUSE
        self._longest = longest if isinstance(longest, timedelta) else timedelta(seconds=longest)

    def evaluate(
        self,
        exception: BaseException,  # noqa: ARG002 Airflow's signature
        try_number: int,
        max_tries: int,  # noqa: ARG002 Airflow's signature
        context: Any = None,
    ) -> RetryDecision:
        """Retry after a pause that grows with the errors of this task, up to its number of ``retries``."""
        errors = _counted(context, try_number)
        longest = self._longest.total_seconds()
        # A large power would overflow long after the limit is reached.
        grown = self._delay.total_seconds() * self._factor ** min(errors - 1, 64)
        pause = timedelta(seconds=min(grown, longest))
        log.info("Tries ended by an error: %d; pause before a retry: %.0f s", errors, pause.total_seconds())
        return RetryDecision.retry(delay=pause)


def _counted(context: Any, try_number: int) -> int:
    """How many tries ended by an exception, this one included; all tries where that cannot be counted."""
    try:
        store = context["task_state_store"]
        errors = int(store.get(ERRORS_KEY) or 0) + 1
        store.set(ERRORS_KEY, errors)
    except Exception as error:
        log.debug("The errors of the tries cannot be counted: %s", type(error).__name__)
        return try_number
    return errors
