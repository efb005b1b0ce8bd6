"""A batch says whether all of its events are stored, whatever Airflow reports."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.dispatch.lease import HeldLease
from tests.unit.test_leases import message
from tests.unit.triggers.triggerer import event_trigger

pytest.importorskip("airflow.triggers.shared_stream", reason="since Airflow 3.3")

from airflow.triggers.shared_stream import AdvanceOutcome

from airflow_provider_workflow.triggers.event_producer import Batch, encode


def batch(*selections: str, acked: int = 0, failed: int = 0, rejected: int = 0) -> Batch:
    """A batch of three messages, and watchers that have selected some of them and emitted their events."""
    messages, _ = encode([message(message_id) for message_id in "abc"])
    made = Batch(HeldLease("i", "l", 0.0, "", []), messages)
    made.selected = {event_trigger(): frozenset(ids) for ids in selections}
    made.emitted = set(made.selected)
    made.outcome = AdvanceOutcome(acked=acked, failed=failed, rejected=rejected)
    return made


def test_it_is_stored_if_every_watcher_that_airflow_counts_has_emitted() -> None:
    made = batch("ab", "b", "", acked=3)

    assert made.is_stored()
    assert made.ids(selected=True) == ["a", "b"]
    assert made.ids(selected=False) == ["c"]


def test_it_is_not_stored_if_airflow_has_not_taken_an_event_of_one_of_them() -> None:
    made = batch("ab", "bc", acked=2)
    made.emitted.pop()

    assert not made.is_stored()


@pytest.mark.parametrize(
    ("acked", "failed", "rejected"), [(1, 1, 0), (0, 2, 0), (1, 0, 1), (3, 0, 0), (0, 0, 0)]
)
def test_it_is_not_stored_after_a_failure_or_if_a_watcher_has_selected_nothing(
    acked: int, failed: int, rejected: int
) -> None:
    assert not batch("abc", "abc", acked=acked, failed=failed, rejected=rejected).is_stored()


async def test_only_watchers_that_selected_something_must_remain() -> None:
    made = batch("a", "", acked=2)
    present, bystander = made.selected
    await bystander.cleanup()
    assert made.is_stored()

    await present.cleanup()
    assert not made.is_stored()
