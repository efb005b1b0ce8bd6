"""Retry delays that double after errors, but not after killed workers (Airflow 3.3+)."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from airflow.sdk import RetryDecision, RetryPolicy

log = logging.getLogger(__name__)

ERRORS_KEY = "workflow_failed_tries"
LONGEST_PAUSE = timedelta(days=1)
"""Airflow's own limit if ``max_retry_delay`` is not given."""


class ErrorBackoff(RetryPolicy):
    """
    Exponential back-off that counts only the tries that ended with an exception.

    Airflow's own counts all tries, so it also doubles the delay after a killed worker. Airflow evaluates a
    policy only after exceptions; after a kill it uses ``retry_delay``.

    :param delay: delay after the first error.
    :param factor: factor for each further error, 1 or more.
    :param longest: maximum delay; a number means seconds.
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
        """Retry after a delay that grows with the errors of this task, up to its number of ``retries``."""
        errors = _counted(context, try_number)
        longest = self._longest.total_seconds()
        # The exponent is bounded, as a large power would overflow.
        grown = self._delay.total_seconds() * self._factor ** min(errors - 1, 64)
        pause = timedelta(seconds=min(grown, longest))
        log.info("Tries ended by an error: %d; pause before a retry: %.0f s", errors, pause.total_seconds())
        return RetryDecision.retry(delay=pause)


def _counted(context: Any, try_number: int) -> int:
    """The number of tries that ended with an exception, this one included; else that of all tries."""
    try:
        store = context["task_state_store"]
        errors = int(store.get(ERRORS_KEY) or 0) + 1
        store.set(ERRORS_KEY, errors)
    except Exception as error:
        log.debug("The errors of the tries cannot be counted: %s", type(error).__name__)
        return try_number
    return errors
