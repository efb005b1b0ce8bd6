"""Rules of the emulator: inboxes, messages and leases."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.emulator.rules.errors import ServiceError
from airflow_provider_workflow.emulator.rules.store import Store


def refused(status: int) -> pytest.RaisesExc[ServiceError]:
    return pytest.RaisesExc(ServiceError, check=lambda error: error.status == status)


def test_control_finds_an_inbox_by_name_or_id_and_opens_a_missing_one(store: Store, inbox_id: str) -> None:
    assert store.inboxes.find("orders").id == store.inboxes.find(inbox_id).id == inbox_id
    assert store.inboxes.open("orders").id == inbox_id
    store.configure(initializing_seconds=60)
    assert store.inboxes.open("new").status == "active"
    with refused(404):
        store.inboxes.open("0b7e6f3a-6f0e-4f8e-9a51-0d6a6c1b2f10")


def test_a_message_without_an_id_ends_with_its_whole_lease_only(store: Store, inbox_id: str) -> None:
    store.messages.put(inbox_id, [{"n": 1}], ids=[None])
    lease = store.messages.lease(inbox_id)
    assert [set(message) for message in lease["results"]] == [
        {"created_at", "status", "message_attributes", "payload"}
    ]
    with pytest.raises(ServiceError, match="message_ids"):
        store.messages.acknowledge(inbox_id, lease["lease_id"], ["null"])
    assert store.messages.acknowledge(inbox_id, lease["lease_id"])["acked_id"]


def test_an_id_that_is_no_scalar_is_rejected(store: Store, inbox_id: str) -> None:
    with pytest.raises(ServiceError, match="ids"):
        store.messages.put(inbox_id, [{}, {}], ids=["a", {}])  # type: ignore[list-item]


def test_attributes_can_be_given_and_set_later(store: Store, inbox_id: str) -> None:
    given = {"error_message": "bounced", "possible_duplicate_data": True, "lease_count": 2}
    (message_id,) = store.messages.put(inbox_id, [{}], attributes=given)
    store.messages.set_attributes(inbox_id, message_id, {"error_message": None})
    (leased,) = store.messages.lease(inbox_id)["results"]
    expected = {"error_message": None, "possible_duplicate_data": True, "lease_count": 3}
    assert leased["message_attributes"] == expected


def test_an_unknown_message_has_no_attributes(store: Store, inbox_id: str) -> None:
    with pytest.raises(ServiceError, match="message_id"):
        store.messages.set_attributes(inbox_id, "nobody", {})


@pytest.mark.parametrize("cursor", ["?", "bm9uc2Vuc2U", "W10", "eyJhZnRlciI6ICJ4In0"])
def test_a_cursor_of_somebody_else_is_refused(store: Store, inbox_id: str, cursor: str) -> None:
    with pytest.raises(ServiceError, match="cursor"):
        store.messages.page(inbox_id, 10, cursor)


def test_the_summary_tells_of_every_message(store: Store, inbox_id: str) -> None:
    store.messages.put(inbox_id, [{}] * 3, ids="abc")
    store.clock.advance(1)
    lease_id = store.messages.lease(inbox_id, lease_limit=2)["lease_id"]
    store.clock.advance(1)
    store.messages.acknowledge(inbox_id, lease_id, ["a"])
    summary = store.messages.summary(inbox_id)
    start = store.clock.now() - 2
    times = [
        (each["id"], each["created_at"], each["leased_at"], each["acked_at"]) for each in summary["messages"]
    ]
    assert times == [
        ("a", start, start + 1, start + 2),
        ("b", start, start + 1, None),
        ("c", start, None, None),
    ]
    assert summary["counts"] == {"available": 1, "leased": 1, "acked": 1, "quarantined": 0}
    assert [(each["lease_id"], each["message_ids"]) for each in summary["leases"]] == [(lease_id, ["b"])]
    counters = summary["counters"]
    assert (counters["put"], counters["leases"], counters["leased"], counters["acks"]) == (3, 1, 2, 1)
    assert "messages" not in store.messages.summary(inbox_id, with_messages=False)
