"""The rules of inboxes, with a clock moved by hand."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.emulator.rules.errors import ServiceError
from airflow_provider_workflow.emulator.rules.store import Store
from tests.unit.emulator.conftest import SUBSCRIPTION


def refused(status: int) -> pytest.RaisesExc[ServiceError]:
    return pytest.RaisesExc(ServiceError, check=lambda error: error.status == status)


def test_a_new_inbox_initializes_for_as_long_as_the_settings_say(store: Store) -> None:
    store.configure(initializing_seconds=30)
    inbox = store.inboxes.create("orders", SUBSCRIPTION)
    store.clock.advance(29)
    assert store.inboxes.get(inbox.id).status == "initializing"
    store.clock.advance(1)
    assert store.inboxes.get(inbox.id).status == "active"


def test_a_name_is_taken_until_its_inbox_is_deleted(store: Store) -> None:
    first = store.inboxes.create("orders", SUBSCRIPTION)
    with refused(409):
        store.inboxes.create("orders", SUBSCRIPTION)
    store.inboxes.delete(first.id)
    assert store.inboxes.create("orders", SUBSCRIPTION).id != first.id


def test_inboxes_without_a_name_do_not_clash(store: Store) -> None:
    assert store.inboxes.create(None, SUBSCRIPTION).id != store.inboxes.create(None, SUBSCRIPTION).id


def test_ensure_finds_the_inbox_of_the_same_subscription(store: Store) -> None:
    first, created = store.inboxes.ensure("orders", SUBSCRIPTION)
    assert created
    assert store.inboxes.ensure("orders", dict(SUBSCRIPTION)) == (first, False)


def test_ensure_refuses_another_subscription(store: Store) -> None:
    store.inboxes.ensure("orders", SUBSCRIPTION)
    with refused(409):
        store.inboxes.ensure("orders", {**SUBSCRIPTION, "inputs": {"folder": "new"}})


def test_a_deleted_inbox_is_gone_at_once_by_default(store: Store, inbox_id: str) -> None:
    assert store.inboxes.delete(inbox_id).status == "deleting"
    with refused(404):
        store.inboxes.get(inbox_id)


def test_a_deleted_inbox_can_be_seen_deleting_for_a_while(store: Store, inbox_id: str) -> None:
    store.configure(deleting_seconds=10)
    store.inboxes.delete(inbox_id)
    with refused(409):
        store.inboxes.delete(inbox_id)
    with refused(409):
        store.inboxes.create("orders", SUBSCRIPTION)
    store.clock.advance(10)
    assert store.inboxes.page(10, 0) == (0, [])


def test_only_an_active_inbox_pauses_and_only_a_paused_one_resumes(store: Store, inbox_id: str) -> None:
    with refused(409):
        store.inboxes.resume(inbox_id)
    assert store.inboxes.pause(inbox_id).paused_reason == "user"
    with refused(409):
        store.inboxes.pause(inbox_id)
    resumed = store.inboxes.resume(inbox_id)
    assert (resumed.status, resumed.paused_reason, resumed.paused_at) == ("active", None, None)


def test_a_resumed_inbox_initializes_again(store: Store, inbox_id: str) -> None:
    store.configure(initializing_seconds=5)
    store.inboxes.pause(inbox_id)
    assert store.inboxes.resume(inbox_id).status == "initializing"
    store.clock.advance(5)
    assert store.inboxes.get(inbox_id).status == "active"


def test_a_failed_initialization_is_told_and_cannot_be_resumed(store: Store) -> None:
    store.inboxes.fail_next("orders")
    inbox = store.inboxes.create("orders", SUBSCRIPTION)
    assert inbox.status == "initializing"
    seen = store.inboxes.get(inbox.id)
    assert (seen.status, seen.paused_reason) == ("initialization_failure", "subscribe_failed")
    with refused(409):
        store.inboxes.resume(inbox.id)
    store.inboxes.delete(inbox.id)
    again = store.inboxes.create("orders", SUBSCRIPTION)
    assert store.inboxes.get(again.id).status == "active"


def test_a_failure_meets_only_the_inbox_it_was_meant_for(store: Store) -> None:
    store.inboxes.fail_next("orders")
    other = store.inboxes.create("invoices", SUBSCRIPTION)
    assert store.inboxes.get(other.id).status == "active"


def test_a_state_can_be_forced(store: Store, inbox_id: str) -> None:
    inbox = store.inboxes.force(inbox_id, "paused", "authentication")
    assert (inbox.status, inbox.paused_reason) == ("paused", "authentication")
    assert inbox.paused_at == store.clock.now()


@pytest.mark.parametrize(("order", "names"), [("oldest", ["a", "b"]), ("newest", ["c", "b"])])
def test_a_page_holds_its_part_of_the_list(store: Store, order: str, names: list[str]) -> None:
    store.configure(list_order=order)
    for name in "abc":
        store.inboxes.open(name)
    count, found = store.inboxes.page(2, 0)
    assert (count, [inbox.name for inbox in found]) == (3, names)


def test_a_list_is_filtered_by_status_and_name(store: Store) -> None:
    for name in "abc":
        store.inboxes.open(name)
    store.inboxes.pause(store.inboxes.find("b").id)
    assert [inbox.name for inbox in store.inboxes.page(10, 0, status="paused")[1]] == ["b"]
    assert [inbox.name for inbox in store.inboxes.page(10, 0, name="c")[1]] == ["c"]
    assert store.inboxes.page(10, 0, status="paused", name="c") == (0, [])


def test_control_finds_an_inbox_by_name_or_id_and_opens_a_missing_one(store: Store, inbox_id: str) -> None:
    assert store.inboxes.find("orders").id == store.inboxes.find(inbox_id).id == inbox_id
    assert store.inboxes.open("orders").id == inbox_id
    store.configure(initializing_seconds=60)
    assert store.inboxes.open("new").status == "active"
    with refused(404):
        store.inboxes.open("0b7e6f3a-6f0e-4f8e-9a51-0d6a6c1b2f10")
