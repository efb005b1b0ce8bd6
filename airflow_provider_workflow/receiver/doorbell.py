"""One doorbell per inbox: after a ring, a run that starts later than the ring is certain to exist."""

from __future__ import annotations

import asyncio
import logging
import random
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from airflow_provider_workflow import clock
from airflow_provider_workflow.client.errors import WorkflowError
from airflow_provider_workflow.receiver.airflow_rest import AirflowRest
from airflow_provider_workflow.receiver.airflow_token import AirflowFailure

T = TypeVar("T")

PAUSE_SECONDS = 1.0
"""Between two looks for the same inbox. However often somebody rings, Airflow is not asked more often."""
FIRST_BACKOFF_SECONDS = 1.0
LONGEST_BACKOFF_SECONDS = 60.0

log = logging.getLogger(__name__)


class Doorbell:
    """
    Starts runs of a dispatch DAG for one inbox, at most one of them waiting.

    A ring is a flag, so any number of them takes no more memory than one. It is put down before Airflow is
    asked: a queued run has not leased yet and will see what the ring was about, while a running one may
    have found the inbox empty just before, and so needs a successor.

    :param inbox: name or id of the inbox.
    :param dag_id: the dispatch DAG.
    :param airflow: where it is started.
    """

    def __init__(self, inbox: str, dag_id: str, airflow: AirflowRest) -> None:
        self.inbox = inbox
        self.dag_id = dag_id
        self._airflow = airflow
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """There may be something to lease. Returns at once."""
        self._rung.set()

    async def run(self) -> None:
        """Answer rings until cancelled."""
        while True:
            await self._rung.wait()
            self._rung.clear()
            await self._answer()
            await clock.async_sleep(PAUSE_SECONDS)

    async def _answer(self) -> None:
        run_id = await self._insist(lambda: self._airflow.next_run_id(self.dag_id, self.inbox))
        if run_id is None:
            log.debug("Inbox %s: a run of %s is queued already", self.inbox, self.dag_id)
            return
        # Always under the same id: where an answer was lost, the run is found and not started twice. One
        # that somebody else started under it came after our look, and so after the ring.
        if await self._insist(lambda: self._airflow.start(self.dag_id, run_id, self.inbox)):
            log.info("Inbox %s: started run %s of %s", self.inbox, run_id, self.dag_id)

    async def _insist(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Do something until it is done: a ring must not be lost because Airflow is away."""
        backoff, told = FIRST_BACKOFF_SECONDS, ""
        while True:
            try:
                done = await attempt()
            except Exception as failure:  # a fault of our own must not make an inbox deaf, either
                problem = _told(failure)
                if problem != told:
                    told = problem
                    log.warning(
                        "Inbox %s: no run of %s could be started, trying until one is: %s",
                        self.inbox,
                        self.dag_id,
                        told,
                    )
            else:
                if told:
                    log.info("Inbox %s: Airflow does as asked again", self.inbox)
                return done
            await clock.async_sleep(backoff * random.uniform(0.5, 1))  # noqa: S311 no secret is made of it
            backoff = min(backoff * 2, LONGEST_BACKOFF_SECONDS)


def _told(failure: Exception) -> str:
    if isinstance(failure, (AirflowFailure, WorkflowError)):
        return str(failure)
    # The texts of other exceptions may hold a secret.
    frame = traceback.extract_tb(failure.__traceback__)[-1]
    return f"{type(failure).__name__} in line {frame.lineno} of {Path(frame.filename).name}"
