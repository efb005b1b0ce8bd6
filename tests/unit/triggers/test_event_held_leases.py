"""What a producer holds leased: nothing that is settled."""

from __future__ import annotations

import gc
import time
import weakref
from typing import Any

import pytest

from airflow_provider_workflow.dispatch.lease import HeldLease
from airflow_provider_workflow.triggers.event_batch import (
    HeldLeases,
    Watcher,
    carried,
)
from airflow_provider_workflow.triggers.event_poller import Leased, Stream
from tests.unit.triggers.triggerer import event_trigger

pytestmark = pytest.mark.since(3, 3, "the acknowledging of asset events")


def of_inbox(**arguments: Any) -> HeldLeases:
    return HeldLeases(Stream.of(event_trigger(**arguments).serialize()[1]))


def leased(lease_id: str, *messages: dict[str, Any]) -> Leased:
    return Leased("inbox-1", HeldLease(lease_id, time.time() + 600, "", list(messages)))  # type: ignore[arg-type]


def test_a_lease_whose_messages_are_all_settled_is_not_kept_until_it_ends() -> None:
    held = of_inbox()
    kept: list[weakref.ref[HeldLease]] = []
    for message_id in "abc":
        whole = leased(f"lease-{message_id}", {"id": message_id, "payload": {}})
        kept.append(weakref.ref(whole.lease))
        (batch,) = held.batches(whole, *carried(whole.lease.messages))
        watcher = Watcher()
        batch.record_choice(watcher, [message_id], {})
        batch.record_event(watcher)
        assert held.outcome(batch, acked=1, failed=0, rejected=0).acknowledge == [message_id]
    del batch, whole
    gc.collect()

    assert [each() for each in kept] == [None, None, None]


def test_a_lease_that_is_settled_in_part_is_still_held_for_the_rest() -> None:
    held = of_inbox()
    whole = leased("lease-1", {"id": "a", "payload": {}}, {"id": "b", "payload": {}})
    (batch,) = held.batches(whole, *carried(whole.lease.messages))
    batch.messages = batch.messages[:1]
    held.outcome(batch, acked=0, failed=1, rejected=0)

    assert held.rest() == [(whole, ["b"])]
