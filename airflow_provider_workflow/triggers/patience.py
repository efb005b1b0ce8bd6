"""How a trigger asks again and again until there is an answer, and how soon it may hand that over."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from airflow.providers.common.compat.sdk import conf

from airflow_provider_workflow.client.errors import RateLimitError, ServerError, TransportError

T = TypeVar("T")


async def patiently(
    ask: Callable[[], Awaitable[T | None]],
    wait: Callable[[float], Awaitable[bool]],
    *,
    inbox: str,
    poll_interval: float,
    max_poll_interval: float,
    log: logging.Logger,
) -> T:
    """
    Ask until there is an answer, through faults that may pass; each series of them is logged once.

    :param ask: asks once; None for no answer yet.
    :param wait: waits so many seconds, or less; whether there is news, so that the interval begins anew.
    :param inbox: how the inbox is named in the log.
    :param poll_interval: seconds between the first two questions, above 0; doubles from then on.
    :param max_poll_interval: seconds that it doubles up to.
    :raises WorkflowError: a fault that waiting does not cure.
    """
    interval, failing = poll_interval, False
    while True:
        answer = None
        try:
            answer = await ask()
        except (TransportError, ServerError, RateLimitError) as error:
            if isinstance(error, TransportError) and error.permanent:
                raise
            if not failing:
                log.warning("Inbox %s is out of reach; trying on: %s", inbox, error)
            failing = True
        else:
            if failing:
                log.info("Inbox %s is within reach again", inbox)
            failing = False
        if answer is not None:
            return answer
        if await wait(interval) and not failing:
            interval = poll_interval
        else:
            interval = min(interval * 2, max_poll_interval)


def settle_seconds() -> float:
    """
    How long a task that gave up its worker has to stay away from one.

    Airflow may notice the end of the process as late as ``min_heartbeat_interval``; where the task is
    queued again by then, Airflow fails it.
    """
    return float(conf.getfloat("workers", "min_heartbeat_interval", fallback=5.0)) + 1
