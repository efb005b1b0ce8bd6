"""Lease, acknowledge, release and quarantine, with a clock moved by hand."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.emulator.rules.errors import ServiceError
from airflow_provider_workflow.emulator.rules.store import Store


def put(store: Store, inbox_id: str, count: int = 1) -> list[str]:
    return store.messages.put(inbox_id, [{"n": n} for n in range(count)])


def statuses(store: Store, inbox_id: str) -> list[str]:
    return [each["status"] for each in store.messages.summary(inbox_id)["messages"]]


def test_a_lease_holds_payloads_counts_the_attempt_and_names_its_end(store: Store, inbox_id: str) -> None:
    (message_id,) = put(store, inbox_id)
    lease = store.messages.lease(inbox_id, lease_seconds=60)
    assert lease["leased_until"] == "2026-01-01T00:01:00.000Z"
    assert lease["inbox_attributes"] == {"status": "active", "paused_reason": None}
    (message,) = lease["results"]
    assert (message["id"], message["status"], message["payload"]) == (message_id, "leased", {"n": 0})
    assert message["message_attributes"]["lease_count"] == 1


def test_a_lease_takes_no_more_than_its_limit(store: Store, inbox_id: str) -> None:
    ids = put(store, inbox_id, 5)
    first = store.messages.lease(inbox_id, lease_limit=3)
    second = store.messages.lease(inbox_id, lease_limit=3)
    assert [each["id"] for each in (*first["results"], *second["results"])] == ids


def test_an_empty_inbox_gives_an_empty_lease(store: Store, inbox_id: str) -> None:
    lease = store.messages.lease(inbox_id)
    assert (lease["lease_id"], lease["leased_until"], lease["results"]) == (None, None, [])


def test_acknowledged_messages_are_gone_for_good(store: Store, inbox_id: str) -> None:
    ids = put(store, inbox_id, 2)
    lease = store.messages.lease(inbox_id)
    answer = store.messages.acknowledge(inbox_id, lease["lease_id"])
    assert answer["acked_id"]
    assert [(each["id"], each["status"]) for each in answer["results"]] == [(each, "acked") for each in ids]
    assert "payload" not in answer["results"][0]
    store.clock.advance(10_000)
    assert store.messages.lease(inbox_id)["results"] == []


def test_a_part_can_be_acknowledged_while_the_lease_keeps_the_rest(store: Store, inbox_id: str) -> None:
    ids = put(store, inbox_id, 3)
    lease_id = store.messages.lease(inbox_id)["lease_id"]
    store.messages.acknowledge(inbox_id, lease_id, ids[:1])
    assert statuses(store, inbox_id) == ["acked", "leased", "leased"]
    answer = store.messages.acknowledge(inbox_id, lease_id)
    assert [each["id"] for each in answer["results"]] == ids[1:]


def test_acknowledging_again_matches_nothing(store: Store, inbox_id: str) -> None:
    put(store, inbox_id)
    lease_id = store.messages.lease(inbox_id)["lease_id"]
    store.messages.acknowledge(inbox_id, lease_id)
    assert store.messages.acknowledge(inbox_id, lease_id) == {"acked_id": None, "results": []}


def test_an_unknown_lease_and_ids_outside_of_it_match_nothing(store: Store, inbox_id: str) -> None:
    put(store, inbox_id)
    lease_id = store.messages.lease(inbox_id)["lease_id"]
    assert store.messages.acknowledge(inbox_id, "unknown") == {"acked_id": None, "results": []}
    other = "0b7e6f3a-6f0e-4f8e-9a51-0d6a6c1b2f10"
    assert store.messages.acknowledge(inbox_id, lease_id, [other]) == {"acked_id": None, "results": []}
    assert store.messages.release(inbox_id, "unknown") == {"released_id": None, "results": []}
    assert statuses(store, inbox_id) == ["leased"]


def test_a_lease_that_ran_out_gives_its_messages_back(store: Store, inbox_id: str) -> None:
    (message_id,) = put(store, inbox_id)
    store.messages.lease(inbox_id, lease_seconds=60)
    store.clock.advance(59.9)
    assert store.messages.lease(inbox_id)["results"] == []
    store.clock.advance(0.1)
    (again,) = store.messages.lease(inbox_id)["results"]
    assert (again["id"], again["message_attributes"]["lease_count"]) == (message_id, 2)
    assert store.inboxes.get(inbox_id).counters["expired"] == 1


@pytest.mark.parametrize("verb", ["acknowledge", "release"])
def test_a_lease_that_ran_out_is_refused_even_if_nobody_leased_since(
    store: Store, inbox_id: str, verb: str
) -> None:
    put(store, inbox_id)
    lease_id = store.messages.lease(inbox_id, lease_seconds=60)["lease_id"]
    store.clock.advance(60)
    with pytest.raises(ServiceError) as refusal:
        getattr(store.messages, verb)(inbox_id, lease_id)
    assert (refusal.value.status, refusal.value.code) == (400, "lease_expired")
    assert statuses(store, inbox_id) == ["available"]


def test_released_messages_are_leasable_at_once_but_the_attempt_counts(store: Store, inbox_id: str) -> None:
    put(store, inbox_id, 2)
    lease_id = store.messages.lease(inbox_id)["lease_id"]
    assert len(store.messages.release(inbox_id, lease_id)["results"]) == 2
    counts = [each["message_attributes"]["lease_count"] for each in store.messages.lease(inbox_id)["results"]]
    assert counts == [2, 2]


def test_released_messages_come_before_younger_ones(store: Store, inbox_id: str) -> None:
    ids = put(store, inbox_id, 3)
    lease_id = store.messages.lease(inbox_id, lease_limit=1)["lease_id"]
    store.messages.release(inbox_id, lease_id)
    assert [each["id"] for each in store.messages.lease(inbox_id)["results"]] == ids


def test_a_message_is_quarantined_when_its_last_lease_ends_unacknowledged(
    store: Store, inbox_id: str
) -> None:
    (message_id,) = put(store, inbox_id)
    for _ in range(2):
        store.messages.release(inbox_id, store.messages.lease(inbox_id)["lease_id"])
    for _ in range(3):
        assert store.messages.lease(inbox_id, lease_seconds=10)["results"]
        assert statuses(store, inbox_id) == ["leased"]
        store.clock.advance(10)
    assert store.messages.lease(inbox_id)["results"] == []
    assert statuses(store, inbox_id) == ["quarantined"]
    assert [each["id"] for each in store.messages.page(inbox_id, 10)[0]] == [message_id]
    assert store.inboxes.get(inbox_id).counters["quarantined"] == 1


def test_the_last_lease_can_still_be_acknowledged(store: Store, inbox_id: str) -> None:
    store.configure(quarantine_after=1)
    put(store, inbox_id)
    assert store.messages.acknowledge(inbox_id, store.messages.lease(inbox_id)["lease_id"])["acked_id"]
    assert statuses(store, inbox_id) == ["acked"]


def test_a_paused_inbox_leases_what_it_holds_and_refuses_once_drained(store: Store, inbox_id: str) -> None:
    put(store, inbox_id)
    store.inboxes.force(inbox_id, "paused", "authentication")
    lease = store.messages.lease(inbox_id)
    assert lease["inbox_attributes"] == {"status": "paused", "paused_reason": "authentication"}
    assert store.messages.lease(inbox_id)["lease_id"] is None  # what is leased may come back: not drained
    store.messages.acknowledge(inbox_id, lease["lease_id"])
    with pytest.raises(ServiceError) as refusal:
        store.messages.lease(inbox_id)
    assert refusal.value.status == 409
    assert refusal.value.body == {
        "detail": "The inbox is paused and holds no messages.",
        "inbox_attributes": {
            "status": "paused",
            "paused_reason": "authentication",
            "paused_at": "2026-01-01T00:00:00.000Z",
        },
    }


@pytest.mark.parametrize("status", ["initializing", "deleting"])
def test_an_inbox_that_does_not_work_leases_nothing_and_says_why(
    store: Store, inbox_id: str, status: str
) -> None:
    put(store, inbox_id)
    store.inboxes.force(inbox_id, status)
    lease = store.messages.lease(inbox_id)
    assert (lease["lease_id"], lease["inbox_attributes"]["status"]) == (None, status)


def test_control_ends_one_lease_or_all(store: Store, inbox_id: str) -> None:
    put(store, inbox_id, 3)
    leases = [store.messages.lease(inbox_id, lease_limit=1)["lease_id"] for _ in range(3)]
    assert store.messages.expire(inbox_id, leases[0]) == 1
    assert statuses(store, inbox_id) == ["available", "leased", "leased"]
    assert store.messages.expire() == 2
    assert statuses(store, inbox_id) == ["available"] * 3
    with pytest.raises(ServiceError, match="lease_expired"):
        store.messages.acknowledge(inbox_id, leases[2])


def test_a_lease_of_another_inbox_matches_nothing(store: Store, inbox_id: str) -> None:
    put(store, inbox_id)
    lease_id = store.messages.lease(inbox_id)["lease_id"]
    other = store.inboxes.open("other").id
    assert store.messages.acknowledge(other, lease_id)["acked_id"] is None
