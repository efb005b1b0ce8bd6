"""How messages come in, with a clock moved by hand."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.emulator.core import Notice
from airflow_provider_workflow.emulator.errors import ServiceError
from airflow_provider_workflow.emulator.store import Store


def test_messages_are_leased_in_the_order_in_which_they_came(store: Store, inbox_id: str) -> None:
    store.messages.put(inbox_id, [{"n": 1}, {"n": 2}])
    store.messages.put(inbox_id, [{"n": 3}])
    leased = store.leases.lease(inbox_id)["results"]
    assert [message["payload"] for message in leased] == [{"n": 1}, {"n": 2}, {"n": 3}]


@pytest.mark.parametrize("status", ["paused", "initializing", "initialization_failure", "deleting"])
def test_an_inbox_that_is_not_active_drops_messages(store: Store, inbox_id: str, status: str) -> None:
    store.inboxes.force(inbox_id, status)
    put = store.messages.put(inbox_id, [{}, {}])
    assert (put.ids, put.dropped, put.status) == ([], 2, status)
    assert store.inboxes.get(inbox_id).counters["dropped"] == 2


def test_an_id_can_be_chosen_and_delivered_again(store: Store, inbox_id: str) -> None:
    store.messages.put(inbox_id, [{"n": 1}], ids=["order 7/ü"])
    store.messages.put(inbox_id, [{"n": 2}], ids=["order 7/ü"])
    leased = store.leases.lease(inbox_id)["results"]
    assert [message["id"] for message in leased] == ["order 7/ü"] * 2


def test_as_many_ids_as_payloads_are_asked_for(store: Store, inbox_id: str) -> None:
    with pytest.raises(ServiceError, match="ids"):
        store.messages.put(inbox_id, [{}, {}], ids=["one"])


def test_attributes_can_be_given_and_set_later(store: Store, inbox_id: str) -> None:
    given = {"error_message": "bounced", "possible_duplicate_data": True, "lease_count": 2}
    (message_id,) = store.messages.put(inbox_id, [{}], attributes=given).ids
    store.messages.set_attributes(inbox_id, message_id, {"error_message": None})
    (leased,) = store.leases.lease(inbox_id)["results"]
    expected = {"error_message": None, "possible_duplicate_data": True, "lease_count": 3}
    assert leased["message_attributes"] == expected


def test_other_attributes_are_refused_before_anything_is_put(store: Store, inbox_id: str) -> None:
    with pytest.raises(ServiceError, match="attributes"):
        store.messages.put(inbox_id, [{}], attributes={"status": "acked"})
    with pytest.raises(ServiceError, match="message_id"):
        store.messages.set_attributes(inbox_id, "nobody", {})
    assert store.inboxes.get(inbox_id).counters["put"] == 0


def test_arrivals_are_announced_once_per_put(store: Store, inbox_id: str) -> None:
    store.inboxes.update(inbox_id, "http://receiver.test/hook")
    heard: list[Notice] = []
    store.core.listeners.append(heard.append)
    store.messages.put(inbox_id, [{}, {}, {}])
    store.messages.put(inbox_id, [{}], announce=False)
    store.messages.put(inbox_id, [])
    assert heard == [Notice(inbox_id, 3, "http://receiver.test/hook")]


def test_redelivery_is_announced_when_the_settings_say_so(store: Store, inbox_id: str) -> None:
    heard: list[Notice] = []
    store.core.listeners.append(heard.append)
    store.messages.put(inbox_id, [{}], announce=False)
    store.leases.release(inbox_id, store.leases.lease(inbox_id)["lease_id"])
    assert heard == []
    store.configure(notify_redelivery=True)
    store.leases.release(inbox_id, store.leases.lease(inbox_id)["lease_id"])
    assert heard == [Notice(inbox_id, 1, None, redelivery=True)]


def test_a_lease_can_be_delivered_twice(store: Store, inbox_id: str) -> None:
    (message_id,) = store.messages.put(inbox_id, [{"n": 1}]).ids
    first = store.leases.lease(inbox_id)
    assert store.messages.deliver_again(inbox_id, first["lease_id"]) == 1
    second = store.leases.lease(inbox_id)
    for lease in (first, second):
        assert [(each["id"], each["payload"]) for each in lease["results"]] == [(message_id, {"n": 1})]
        assert store.leases.acknowledge(inbox_id, lease["lease_id"])["acked_id"]
