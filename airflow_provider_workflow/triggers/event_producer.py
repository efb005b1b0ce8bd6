"""The producer of a shared stream in ack mode: yields leased batches, and acknowledges or releases them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow.triggers.shared_stream import AdvanceItem, SharedStreamProducer

from airflow_provider_workflow import clock
from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.errors import (
    ConflictError,
    InvalidRequestError,
    LeaseExpiredError,
    NotFoundError,
)
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.dispatch.lease import slices
from airflow_provider_workflow.triggers.event_batch import Batch, Choice, HeldLeases, Watcher, carried, lasts
from airflow_provider_workflow.triggers.event_poller import Leased, Poller, Stream
from airflow_provider_workflow.triggers.event_watcher import EventWatcher, watchers_of
from airflow_provider_workflow.triggers.polling import explained

if TYPE_CHECKING:
    from airflow_provider_workflow.client.client import AsyncWorkflowClient

log = logging.getLogger(__name__)

GATHER_SECONDS = 2.0
"""Delay before the first lease, so that the other watchers of the inbox have started."""
CLOSING_SECONDS = 1.0
"""How long a producer that closes tries to acknowledge and release."""
MOST_UNDECIDED = 8
"""
Maximum number of batches that Airflow has not stored, or that are not acknowledged. At this limit nothing is
leased.
"""
ACKNOWLEDGE_DELAY_SECONDS = 3.0
"""
Delay of an acknowledgement after Airflow has reported its event as stored. If the DAG was paused just before,
Airflow drops the event, reports it as stored, and ends the watcher within this time.
"""
PAUSES = (5.0, 10.0, 20.0, 40.0, 60.0)
"""Seconds between attempts to acknowledge, in addition to the client's retries; the last one repeats."""
FINAL = (InvalidRequestError, NotFoundError, ConflictError)
"""Errors of an acknowledgement that are not retried."""

_closing: set[asyncio.Task[None]] = set()


class InboxProducer(SharedStreamProducer):
    """
    Polls one inbox for all watchers of a stream.

    No method raises, as Airflow would fail all its watchers; ``advance`` and ``aclose`` do not wait.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._poller = Poller(stream)
        self._held = HeldLeases(stream)
        self._in_airflow: set[Batch] = set()
        self._progress = asyncio.Event()
        self._acknowledger = Acknowledger(stream.inbox, lambda: self._poller.client, self._progress.set)

    async def open_stream(self) -> AsyncIterator[tuple[Batch, Batch]]:
        """Yield batches without end, ``min_interval`` apart."""
        await clock.async_sleep(GATHER_SECONDS)
        async with aclosing(self._poller.leases()) as leases:
            async for leased in leases:
                for batch in await self._batches(leased):
                    await self._let_watchers_choose(batch)
                    if not lasts(batch.lease):
                        break
                    self._in_airflow.add(batch)
                    yield batch, batch
                    await clock.async_sleep(self.stream.min_interval)
                    await self._until_more_may_be_leased()

    def get_advance_lane(self, broker_payload: Batch) -> Hashable:
        """A lane for each batch, as messages may be acknowledged in any order."""
        return id(broker_payload)

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Decide on the outcome of each message; the acknowledger sends the calls."""
        for offered, report in batch:
            self._in_airflow.discard(offered)
            self._progress.set()
            try:
                outcome = self._held.outcome(offered, report.acked, report.failed, report.rejected)
            except Exception:
                self._log_fault()
                continue
            self._acknowledger.acknowledge(offered, outcome.acknowledge)
            self._acknowledger.release(offered, outcome.release)

    async def aclose(self) -> None:
        """Start to release what is held, in a task that continues while Airflow closes its other streams."""
        self._acknowledger.close()
        closing = asyncio.create_task(
            self._release_and_close(), name=f"workflow-closing[{self.stream.inbox}]"
        )
        _closing.add(closing)
        closing.add_done_callback(_closing.discard)
        # Let the task start: if it were cancelled before, it would never run.
        await asyncio.sleep(0)

    async def _let_watchers_choose(self, batch: Batch) -> None:
        """
        Let each watcher choose from a batch before Airflow gets it, as nothing may be awaited after that.

        This runs in a thread, as expressions over large payloads take long. Watchers that start meanwhile
        choose too.
        """
        while waiting := [w for w in watchers_of(self.stream) if w not in batch.choices]:
            found = await asyncio.to_thread(_choices, waiting, batch)
            batch.choices.update(found)

    async def _batches(self, leased: Leased) -> list[Batch]:
        try:
            messages, causes = await asyncio.to_thread(carried, leased.lease.messages)
            return self._held.batches(leased, messages, causes)
        except Exception:
            self._log_fault()
            return []

    def _log_fault(self) -> None:
        log.exception(
            "Inbox %s: an internal error; its messages are redelivered when their lease expires",
            self.stream.inbox,
        )

    async def _until_more_may_be_leased(self) -> None:
        while len(self._in_airflow) + self._acknowledger.backlog >= MOST_UNDECIDED:
            self._progress.clear()
            await self._progress.wait()

    async def _release_and_close(self) -> None:
        try:
            await self._release_rest()
        except asyncio.CancelledError:
            # The event loop is ending: it cancels all tasks once, and waits for them.
            await self._release_rest()
        finally:
            await self._poller.close()

    async def _release_rest(self) -> None:
        """Make a last attempt to acknowledge and release the rest, concurrently."""
        work = [self._acknowledger.finish(), self._release_pending()]
        work += [
            self._release(leased.inbox_id, leased.lease.lease_id, ids) for leased, ids in self._held.rest()
        ]
        tasks = {asyncio.ensure_future(each) for each in work}
        for task in tasks:
            task.add_done_callback(self._log_failure)
        try:
            await clock.wait(tasks, CLOSING_SECONDS)
        finally:
            for task in tasks:
                task.cancel()

    def _log_failure(self, task: asyncio.Future[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            text = "Inbox %s: some messages are redelivered only when their lease expires: %s"
            log.info(text, self.stream.inbox, plain(str(error)))

    async def _release_pending(self) -> None:
        """Release the messages of a pending lease request."""
        pending = self._poller.pending
        if pending is not None:
            await asyncio.wait({pending})
            if lease_id := pending.result().get("lease_id"):
                await self._release(self._poller.inbox_id, lease_id, None)

    async def _release(self, inbox_id: str, lease_id: str, ids: list[str] | None) -> None:
        client = self._poller.client
        for some in [None] if ids is None else slices(ids):
            await client.send(api.release_messages(inbox_id, lease_id, some))


def _choices(watchers: list[EventWatcher], batch: Batch) -> dict[Watcher, Choice]:
    return {watcher: watcher.choose(batch) for watcher in watchers}


@dataclass(frozen=True, eq=False)
class Job:
    """Messages of a batch to acknowledge, or to release if ``acknowledges`` is False."""

    batch: Batch
    ids: list[str]
    acknowledges: bool
    due: float = field(default_factory=lambda: clock.monotonic() + ACKNOWLEDGE_DELAY_SECONDS)


class Acknowledger:
    """
    Acknowledges and releases messages; each job is a task, so that a failing one does not delay others.

    :param inbox: name of the inbox in the log.
    :param client: returns the current client.
    :param on_done: called after each finished job.
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
        """The number of unfinished jobs."""
        return len(self._jobs)

    def acknowledge(self, batch: Batch, ids: list[str]) -> None:
        """Acknowledge messages after the delay; release them instead if a watcher of them ends before."""
        self._add(batch, ids, acknowledges=True)

    def release(self, batch: Batch, ids: list[str]) -> None:
        """Release messages."""
        self._add(batch, ids, acknowledges=False)

    def _add(self, batch: Batch, ids: list[str], *, acknowledges: bool) -> None:
        for some in slices(ids):
            job = Job(batch, some, acknowledges=acknowledges)
            self._jobs[job] = asyncio.create_task(self._work(job), name=f"workflow-job[{self._inbox}]")

    async def _work(self, job: Job) -> None:
        if job.acknowledges:
            await clock.async_sleep(max(0.0, job.due - clock.monotonic()))
        acknowledges = job.acknowledges and job.batch.watchers_remain()
        await self._carry_out(job, acknowledges, persists=acknowledges)
        # Only now: a job that is in progress when the producer closes is repeated.
        del self._jobs[job]
        self._on_done()

    def close(self) -> None:
        """
        Decide on the unfinished jobs.

        An acknowledgement is kept only if its delay is over: Airflow reports events as stored that it takes
        while it stops. This has to be decided now, as all watchers end while the triggerer stops.
        """
        now = clock.monotonic()
        self._last = [
            replace(job, acknowledges=job.acknowledges and _may_be_acknowledged(job, now))
            for job in self._jobs
        ]

    async def finish(self) -> None:
        """Make a last attempt at the jobs that were unfinished at ``close``."""
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
            if not persists or clock.now() + pause >= job.batch.lease.ends_at:
                log.warning(
                    "Inbox %s: %d messages are redelivered when their lease expires, as they could not be"
                    " %s: %s",
                    self._inbox,
                    len(job.ids),
                    "acknowledged" if acknowledges else "released",
                    explained(error),
                )
                return
            if not self._failing:
                text = "Inbox %s: acknowledgements fail; retrying: %s"
                log.warning(text, self._inbox, explained(error))
            self._failing = True
            await clock.async_sleep(pause)
        self._failing = False

    async def _attempt(self, job: Job, acknowledges: bool) -> Exception | None:
        """Send one call; return its error, if any."""
        make: Any = api.acknowledge_messages if acknowledges else api.release_messages
        try:
            answer = await self._client().send(make(job.batch.inbox_id, job.batch.lease.lease_id, job.ids))
        except LeaseExpiredError:
            log.info(
                "Inbox %s: a lease had expired; %d messages of it are redelivered", self._inbox, len(job.ids)
            )
        except Exception as error:
            return error
        else:
            done = len(answer.get("results") or [])
            if acknowledges and done < len(job.ids):
                log.info(
                    "Inbox %s: %d of %d messages were acknowledged; the others are redelivered",
                    self._inbox,
                    done,
                    len(job.ids),
                )
        return None


def _may_be_acknowledged(job: Job, now: float) -> bool:
    return job.batch.watchers_remain() and job.due <= now
