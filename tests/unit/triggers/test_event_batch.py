"""A batch says which messages are in stored events, whatever Airflow reports."""

from __future__ import annotations

import asyncio

import pytest

from airflow_provider_workflow.dispatch.lease import HeldLease
from airflow_provider_workflow.triggers.event_batch import Batch, Selection
from tests.unit.test_leases import message
from tests.unit.triggers.watched import event_message


def selection(ids: str, rejected: str = "", *, emitted: bool = True) -> Selection:
    return Selection(frozenset(ids), dict.fromkeys(rejected, "it fails"), asyncio.Event(), emitted)


def batch(*selections: Selection) -> Batch:
    lease = HeldLease("i", "l", 0.0, "", [])
    return Batch(lease, [event_message(message(each)) for each in "abc"], list("abc"), list(selections))


def test_what_every_watcher_that_selects_it_has_emitted_is_stored() -> None:
    assert batch(selection("ab"), selection("b")).report(2, 0, 0) == (["a", "b"], ["c"])


def test_what_one_of_them_has_not_emitted_is_redelivered() -> None:
    assert batch(selection("ab"), selection("bc", emitted=False)).report(2, 0, 0) == (["a"], [])


@pytest.mark.parametrize(
    ("acked", "failed", "rejected"), [(1, 1, 0), (0, 2, 0), (0, 1, 1), (3, 0, 0), (2, 0, 1)]
)
def test_a_failure_or_a_watcher_without_a_selection_has_all_redelivered(
    acked: int, failed: int, rejected: int
) -> None:
    assert batch(selection("abc"), selection("abc")).report(acked, failed, rejected) == ([], [])


def test_what_one_rejects_is_not_stored_even_where_the_other_selects_it() -> None:
    assert batch(selection("abc"), selection("", "b")).report(1, 0, 1) == (["a", "c"], [])


def test_only_watchers_that_selected_something_must_remain() -> None:
    here, bystander = selection("a"), selection("")
    made = batch(here, bystander)
    bystander.ended.set()
    assert made.watchers_remain()

    here.ended.set()
    assert not made.watchers_remain()
