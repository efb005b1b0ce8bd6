"""Acknowledgers, whose client answers as it is told, and batches for them."""

from __future__ import annotations

from typing import Any

from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    InvalidRequestError,
    NotFoundError,
    ServerError,
    TransportError,
)
from airflow_provider_workflow.dispatch.lease import HeldLease
from airflow_provider_workflow.triggers.event_batch import Batch, Watcher
from airflow_provider_workflow.triggers.event_producer import Acknowledger
from tests.unit.fake_clock import FakeClock
from tests.unit.test_leases import message
from tests.unit.triggers.watched import carried

LEASE_SECONDS = 600
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


def worker(client: Client) -> Any:
    return Acknowledger("orders", lambda: client)  # type: ignore[arg-type, return-value]


def batch(clock: FakeClock, *ids: str) -> tuple[Batch, Watcher]:
    """A batch of a watcher that wanted these and whose event Airflow took."""
    lease = HeldLease("lease", clock.now() + LEASE_SECONDS, "", [])
    made = Batch("inbox", lease, [carried(message(each)) for each in ids])
    watcher = Watcher()
    made.record_choice(watcher, ids, {})
    made.record_event(watcher)
    return made, watcher


async def finish(acknowledger: Acknowledger) -> None:
    acknowledger.close()
    await acknowledger.finish()
