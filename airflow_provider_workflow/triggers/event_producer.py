"""The producer of a shared stream in ack mode: leased batches out, acknowledgements and releases back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Sequence
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
from airflow_provider_workflow.client.json_steps import Pace
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.dispatch.lease import slices
from airflow_provider_workflow.triggers.event_batch import Batch, Choice, HeldLeases, Watcher, lasts
from airflow_provider_workflow.triggers.event_poller import Leased, Poller, Stream
from airflow_provider_workflow.triggers.event_watcher import EventWatcher, watchers_of
from airflow_provider_workflow.triggers.retrying import explained

if TYPE_CHECKING:
    from airflow_provider_workflow.client.client import AsyncWorkflowClient

log = logging.getLogger(__name__)

GATHER_SECONDS = 2.0
"""Before the first lease: the other watchers of the inbox begin at the same time."""
CLOSING_SECONDS = 1.0
"""How long a closing producer tries to acknowledge and to release."""
MOST_UNDECIDED = 8
"""
Batches that wait for Airflow, or to be acknowledged, at most. While it stores nothing, or no acknowledgement
comes through, nothing more is leased.
"""
REST_SECONDS = 3.0
"""
How long an acknowledgement rests after Airflow has called its event stored. Where the DAG was paused just
before, Airflow drops the event, calls it stored, and ends the watcher within this time.
"""
PAUSES = (5.0, 10.0, 20.0, 40.0, 60.0)
"""Seconds between the attempts at an acknowledgement, beyond those of the client; the last for ever."""
FINAL = (InvalidRequestError, NotFoundError, ConflictError)
"""What no further attempt at an acknowledgement can change."""

_closing: set[asyncio.Task[None]] = set()


class InboxProducer(SharedStreamProducer):
    """
    Polls one inbox for all watchers that agree in their stream.

    Nothing of it raises, as Airflow would fail all its watchers; neither ``advance`` nor ``aclose`` waits.

    :param stream: what to poll, and how.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._poller = Poller(stream)
        self._held = HeldLeases(stream)
        self._in_airflow: set[Batch] = set()
        self._progress = asyncio.Event()
        self._acknowledger = Acknowledger(stream.inbox, lambda: self._poller.client, self._progress.set)

    async def open_stream(self) -> AsyncIterator[tuple[Batch, Batch]]:
        """Batch after batch, ``min_interval`` apart, for ever."""
        await clock.async_sleep(GATHER_SECONDS)
        async with aclosing(self._poller.leases()) as leases:
            async for leased in leases:
                for batch in self._batches(leased):
                    if batch is None:
                        await asyncio.sleep(0)
                        continue
                    await self._let_watchers_choose(batch)
                    if not lasts(batch.lease):
                        break
                    self._in_airflow.add(batch)
                    yield batch, batch
                    await clock.async_sleep(self.stream.min_interval)
                    await self._until_more_may_be_leased()

    def get_advance_lane(self, broker_payload: Batch) -> Hashable:
        """One for each batch: messages are acknowledged in any order, and none waits for another."""
        return id(broker_payload)

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Decide on the outcome of each message; the acknowledger carries it out."""
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
        """Begin to release what is held. That goes on while Airflow closes its other streams, and after."""
        self._acknowledger.close()
        closing = asyncio.create_task(
            self._release_and_close(), name=f"workflow-closing[{self.stream.inbox}]"
        )
        _closing.add(closing)
        closing.add_done_callback(_closing.discard)
        # A task that is cancelled before it has begun never begins.
        await asyncio.sleep(0)

    async def _let_watchers_choose(self, batch: Batch) -> None:
        """
        Find out what each watcher wants of a batch before it is offered: then nothing may be awaited.

        In a thread, as expressions over large payloads take long. Watchers that begin meanwhile choose as
        well, so that whoever the batch is offered to next has chosen.
        """
        while waiting := [w for w in watchers_of(self.stream) if w not in batch.choices]:
            found = await asyncio.to_thread(_choices, waiting, batch)
            batch.choices.update(found)

    def _batches(self, leased: Leased) -> Iterator[Batch | None]:
        try:
            yield from self._held.batches(leased)
        except Exception:
            self._log_fault()

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
            # The event loop ends, and cancels all of its tasks. It does so once, and waits for them.
            await self._release_rest()
        finally:
            await self._poller.close()

    async def _release_rest(self) -> None:
        """Acknowledge and release what is left, all at once, for the last time."""
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
        """Release what a lease that is under way brings."""
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
    pace = Pace()
    return {each: each.choose(batch, pace) for each in watchers}


@dataclass(frozen=True, eq=False)
class Job:
    """Messages of a batch that are to be acknowledged, where ``acknowledges``, or released."""

    batch: Batch
    ids: list[str]
    acknowledges: bool
    due: float = field(default_factory=lambda: clock.monotonic() + REST_SECONDS)


class Acknowledger:
    """
    Carries out the outcomes that a producer decides, each job by itself: one that fails holds up no other.

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

    def acknowledge(self, batch: Batch, ids: list[str]) -> None:
        """Acknowledge these after their rest; where a watcher of them leaves before, release them."""
        self._add(batch, ids, acknowledges=True)

    def release(self, batch: Batch, ids: list[str]) -> None:
        """Make these leasable again."""
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
        # Not before: what is being carried out when the producer closes is carried out again.
        del self._jobs[job]
        self._on_done()

    def close(self) -> None:
        """
        Let no acknowledgement rest any more.

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
        """Send one call; the error that it met, if any."""
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
    return job.batch.watchers_remain() and (job.due <= now or job.batch.is_proven())
