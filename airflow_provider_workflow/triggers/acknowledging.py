"""Acknowledges and releases for a producer, which must neither wait nor fail itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow import clock
from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.errors import (
    ConflictError,
    InvalidRequestError,
    LeaseExpiredError,
    NotFoundError,
)
from airflow_provider_workflow.dispatch.lease import slices
from airflow_provider_workflow.triggers.retrying import explained
from airflow_provider_workflow.triggers.tickets import Ticket

if TYPE_CHECKING:
    from airflow_provider_workflow.client.client import AsyncWorkflowClient

log = logging.getLogger(__name__)

REST_SECONDS = 3.0
"""
How long an acknowledgement rests after Airflow has called its event stored. Where the DAG was paused just
before, Airflow drops the event, calls it stored, and ends the watcher within this time.
"""
PAUSES = (5.0, 10.0, 20.0, 40.0, 60.0)
"""Seconds between the attempts at an acknowledgement, beyond those of the client; the last for ever."""
FINAL = (InvalidRequestError, NotFoundError, ConflictError)
"""What no further attempt at an acknowledgement can change."""


@dataclass(frozen=True, eq=False)
class Job:
    """Messages of a ticket that are to be acknowledged, where ``acknowledges``, or released."""

    ticket: Ticket
    ids: list[str]
    acknowledges: bool
    due: float = field(default_factory=lambda: clock.monotonic() + REST_SECONDS)


class Acknowledger:
    """
    Carries out what a producer has decided, each job by itself: one that fails holds up no other.

    :param inbox: how the inbox is named in the log.
    :param client: the client of the moment.
    :param on_done: called whenever there is one job less.
    """

    def __init__(
        self,
        inbox: str,
        client: Callable[[], AsyncWorkflowClient],
        on_done: Callable[[], None] = lambda: None,
    ) -> None:
        self._inbox = inbox
        self._client = client
        self._on_done = on_done
        self._jobs: dict[Job, asyncio.Task[None]] = {}
        self._last: list[Job] = []
        self._failing = False

    @property
    def backlog(self) -> int:
        """How many jobs there are."""
        return len(self._jobs)

    def acknowledge(self, ticket: Ticket, ids: list[str]) -> None:
        """Acknowledge these after their rest; where a watcher of them leaves before, release them."""
        self._add(ticket, ids, acknowledges=True)

    def release(self, ticket: Ticket, ids: list[str]) -> None:
        """Make these leasable again."""
        self._add(ticket, ids, acknowledges=False)

    def _add(self, ticket: Ticket, ids: list[str], *, acknowledges: bool) -> None:
        for some in slices(ids):
            job = Job(ticket, some, acknowledges=acknowledges)
            self._jobs[job] = asyncio.create_task(self._work(job), name=f"workflow-job[{self._inbox}]")

    async def _work(self, job: Job) -> None:
        if job.acknowledges:
            await clock.async_sleep(max(0.0, job.due - clock.monotonic()))
        acknowledges = job.acknowledges and job.ticket.stands()
        await self._carry_out(job, acknowledges, persists=acknowledges)
        # Not before: what is being carried out when the producer closes is carried out again.
        del self._jobs[job]
        self._on_done()

    def close(self) -> None:
        """
        Let nothing rest any more.

        What still rests is acknowledged only where Airflow was seen at work after it took the event. It is
        decided now, as all watchers leave while the triggerer ends.
        """
        now = clock.monotonic()
        self._last = [
            replace(job, acknowledges=job.acknowledges and _may_be_acknowledged(job, now))
            for job in self._jobs
        ]

    async def finish(self) -> None:
        """Carry out what was left when it was closed, at once and for the last time."""
        for task in self._jobs.values():
            task.cancel()

        async def finish(job: Job) -> None:
            await self._carry_out(job, job.acknowledges, persists=False)
            self._last.remove(job)

        await asyncio.gather(*map(finish, self._last))

    async def _carry_out(self, job: Job, acknowledges: bool, persists: bool) -> None:
        pauses = list(PAUSES)
        while (error := await self._attempt(job, acknowledges)) is not None:
            pause = pauses.pop(0) if len(pauses) > 1 else pauses[0]
            persists = persists and not isinstance(error, FINAL)
            if not persists or clock.now() + pause >= job.ticket.lease.ends_at:
                log.warning(
                    "Inbox %s: %d messages come again when their lease ends, as they could not be %s: %s",
                    self._inbox,
                    len(job.ids),
                    "acknowledged" if acknowledges else "released",
                    explained(error),
                )
                return
            if not self._failing:
                text = "Inbox %s: acknowledgements fail; trying on: %s"
                log.warning(text, self._inbox, explained(error))
            self._failing = True
            await clock.async_sleep(pause)
        self._failing = False

    async def _attempt(self, job: Job, acknowledges: bool) -> Exception | None:
        """Send one call; the error that it met, if any."""
        make: Any = api.acknowledge_messages if acknowledges else api.release_messages
        try:
            answer = await self._client().send(make(job.ticket.inbox_id, job.ticket.lease.lease_id, job.ids))
        except LeaseExpiredError:
            log.info("Inbox %s: a lease had ended; %d messages of it come again", self._inbox, len(job.ids))
        except Exception as error:
            return error
        else:
            done = len(answer.get("results") or [])
            if acknowledges and done < len(job.ids):
                log.info(
                    "Inbox %s: %d of %d messages were acknowledged; the others come again",
                    self._inbox,
                    done,
                    len(job.ids),
                )
        return None


def _may_be_acknowledged(job: Job, now: float) -> bool:
    return job.ticket.stands() and (job.due <= now or job.ticket.is_proven())
