"""What a producer holds leased: nothing that is settled, and nothing written before it is asked for."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_workflow.client.json_steps import CHARACTERS
from airflow_provider_workflow.dispatch.lease import HeldLease
from airflow_provider_workflow.triggers import custody
from airflow_provider_workflow.triggers.custody import LARGEST_EVENT, Custody
from airflow_provider_workflow.triggers.event_payload import Carried, carried
from airflow_provider_workflow.triggers.poller import Leased
from airflow_provider_workflow.triggers.stream import Stream
from airflow_provider_workflow.triggers.tickets import Ticket, Watcher
from tests.unit.triggers.triggerer import event_trigger

pytestmark = pytest.mark.since(3, 3, "the acknowledging of asset events")


def of_inbox(**arguments: Any) -> Custody:
    return Custody(Stream.of(event_trigger(**arguments).serialize()[1]))


def leased(lease_id: str, *messages: dict[str, Any]) -> Leased:
    return Leased("inbox-1", HeldLease(lease_id, time.time() + 600, "", list(messages)))  # type: ignore[arg-type]


def test_a_lease_whose_messages_are_all_settled_is_not_kept_until_it_ends() -> None:
    held = of_inbox()
    kept: list[weakref.ref[HeldLease]] = []
    for message_id in "abc":
        whole = leased(f"lease-{message_id}", {"id": message_id, "payload": {}})
        kept.append(weakref.ref(whole.lease))
        (ticket,) = held.take(whole)
        assert ticket is not None
        watcher = Watcher()
        ticket.judge(watcher, [message_id], {})
        ticket.mark(watcher, proven=True)
        assert held.settle(ticket, acked=1, failed=0, rejected=0).acknowledge == [message_id]
    del ticket, whole
    gc.collect()

    assert [each() for each in kept] == [None, None, None]


def test_a_lease_that_is_settled_in_part_is_still_held_for_the_rest() -> None:
    held = of_inbox()
    whole = leased("lease-1", {"id": "a", "payload": {}}, {"id": "b", "payload": {}})
    (ticket,) = held.take(whole)
    assert ticket is not None
    ticket.messages = ticket.messages[:1]
    held.settle(ticket, acked=0, failed=1, rejected=0)

    assert held.rest() == [(whole, ["b"])]


def test_a_large_lease_is_written_one_event_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    def noted(message: Any) -> Iterator[Carried | None]:
        written.append(message["id"])
        return carried(message)

    monkeypatch.setattr(custody, "carried", noted)
    large = [{"id": f"m{number}", "payload": {"text": "x" * LARGEST_EVENT}} for number in range(5)]
    given = list[Ticket | None]()

    def noting() -> Iterator[Ticket]:
        for each in of_inbox().take(leased("lease-1", *large)):
            given.append(each)
            if each is not None:
                yield each

    tickets = noting()
    assert [each.id for each in next(tickets).messages] == ["m0"]
    assert given.count(None) > LARGEST_EVENT / CHARACTERS, "the loop may go on while they are written"
    assert written == ["m0", "m1"]
    assert [each.id for ticket in tickets for each in ticket.messages] == ["m1", "m2", "m3", "m4"]
