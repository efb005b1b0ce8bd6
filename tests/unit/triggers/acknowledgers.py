"""Producers whose client answers as it is told, and batches for them."""

from __future__ import annotations

import asyncio
from typing import Any

from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    InvalidRequestError,
    NotFoundError,
    ServerError,
    TransportError,
)
from airflow_provider_workflow.dispatch.lease import HeldLease
from airflow_provider_workflow.triggers.event_batch import Batch, Selection, Stream
from tests.unit.fake_clock import FakeClock
from tests.unit.test_leases import message
from tests.unit.triggers.watched import event_message

LEASE_SECONDS = 600
STREAM = Stream("orders", "workflow_default", 10, LEASE_SECONDS, 3.0, 5.0, 60.0, wake_on_events=False)
PASSING = [ServerError("503", status=503), TransportError("reset", sent=True)]
TO_BE_FIXED = AuthenticationError("401", status=401)
FINAL = [InvalidRequestError("400", status=400), NotFoundError("404", status=404)]


class Client:
    """
    Answers calls.

    :param outcomes: exceptions to raise, or numbers of messages to have done, one for each call; all of
        them after that.
    """

    def __init__(self, clock: FakeClock, *outcomes: Any) -> None:
        self.clock = clock
        self.outcomes = list(outcomes)
        self.sent: list[tuple[float, str, list[str]]] = []
        self.faults: set[str] = set()

    async def send(self, call: Any) -> dict[str, Any]:
        ids = call.json["message_ids"]
        self.sent.append((self.clock.elapsed, call.name.split("_")[0], ids))
        outcome = self.outcomes.pop(0) if self.outcomes else len(ids)
        if self.faults & set(ids):
            outcome = PASSING[0]
        if isinstance(outcome, Exception):
            raise outcome
        return {"results": ids[:outcome]}


def producer(client: Client | None) -> Any:
    """A producer that is connected to a client."""
    from airflow_provider_workflow.triggers.event_producer import InboxProducer

    made: Any = InboxProducer(STREAM)
    made.client = client
    return made


def batch(clock: FakeClock, *ids: str) -> Batch:
    """A batch of a watcher that selects these messages, and whose events Airflow took."""
    lease = HeldLease("inbox", "lease", clock.now() + LEASE_SECONDS, "", [])
    made = Batch(lease, [event_message(message(each)) for each in ids], list(ids))
    made.selections.append(Selection(frozenset(ids), {}, asyncio.Event(), emitted=True))
    return made


async def report(producer: Any, batch: Batch, *, stored: bool = True) -> None:
    """Airflow reports that it has stored the events of the watcher, or has not."""
    from airflow.triggers.shared_stream import AdvanceItem, AdvanceOutcome

    batch.is_offered = True
    producer.held_batches.add(batch)
    await producer.advance([AdvanceItem(batch, AdvanceOutcome(acked=stored, failed=not stored))])


async def close(producer: Any) -> None:
    from airflow_provider_workflow.triggers import event_producer

    await producer.aclose()
    await asyncio.gather(*event_producer.closing_streams)
