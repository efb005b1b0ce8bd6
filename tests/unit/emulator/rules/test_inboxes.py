"""Rules of the emulator: inboxes, messages and leases."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote_plus

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


def test_messages_are_leased_in_the_order_in_which_they_came(store: Store, inbox_id: str) -> None:
    store.messages.put(inbox_id, [{"n": 1}, {"n": 2}])
    store.messages.put(inbox_id, [{"n": 3}])
    leased = store.messages.lease(inbox_id)["results"]
    assert [message["payload"] for message in leased] == [{"n": 1}, {"n": 2}, {"n": 3}]


@pytest.mark.parametrize("status", ["paused", "initializing"])
def test_an_inbox_that_is_not_active_drops_messages(store: Store, inbox_id: str, status: str) -> None:
    store.inboxes.force(inbox_id, status)
    assert store.messages.put(inbox_id, [{}, {}]) == []
    assert store.inboxes.get(inbox_id).counters["dropped"] == 2


def test_an_id_can_be_chosen_and_delivered_again(store: Store, inbox_id: str) -> None:
    store.messages.put(inbox_id, [{"n": 1}], ids=["order 7/ü"])
    store.messages.put(inbox_id, [{"n": 2}], ids=["order 7/ü"])
    leased = store.messages.lease(inbox_id)["results"]
    assert [message["id"] for message in leased] == ["order 7/ü"] * 2


@pytest.mark.parametrize("chosen", ["", "order 7/ü", 17, True])
def test_an_id_can_be_any_json_scalar_and_its_message_can_be_acknowledged(
    store: Store, inbox_id: str, chosen: Any
) -> None:
    assert store.messages.put(inbox_id, [{}], ids=[chosen]) == [chosen]
    lease = store.messages.lease(inbox_id)
    assert [message["id"] for message in lease["results"]] == [chosen]
    assert store.messages.acknowledge(inbox_id, lease["lease_id"], [chosen])["acked_id"]


def test_a_number_and_its_text_name_the_same_message(store: Store, inbox_id: str) -> None:
    store.messages.put(inbox_id, [{}, {}], ids=[17, 18])
    lease_id = store.messages.lease(inbox_id)["lease_id"]
    (released,) = store.messages.release(inbox_id, lease_id, ["17"])["results"]
    assert released["id"] == 17


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


def test_as_many_ids_as_payloads_are_asked_for(store: Store, inbox_id: str) -> None:
    with pytest.raises(ServiceError, match="ids"):
        store.messages.put(inbox_id, [{}, {}], ids=["one"])


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


def test_arrivals_are_announced_once_per_put(store: Store, inbox_id: str) -> None:
    heard: list[str | None] = []
    store.listeners.append(heard.append)
    store.messages.put(inbox_id, [{}, {}, {}])
    store.messages.put(inbox_id, [])
    assert heard == [inbox_id]


def test_redelivery_is_not_announced(store: Store, inbox_id: str) -> None:
    store.messages.put(inbox_id, [{}])
    heard: list[str | None] = []
    store.listeners.append(heard.append)
    store.messages.release(inbox_id, store.messages.lease(inbox_id)["lease_id"])
    assert heard == []


def test_a_lease_can_be_delivered_twice(store: Store, inbox_id: str) -> None:
    (message_id,) = store.messages.put(inbox_id, [{"n": 1}])
    first = store.messages.lease(inbox_id)
    store.messages.deliver_again(inbox_id, first["lease_id"])
    second = store.messages.lease(inbox_id)
    for lease in (first, second):
        assert [(each["id"], each["payload"]) for each in lease["results"]] == [(message_id, {"n": 1})]
        assert store.messages.acknowledge(inbox_id, lease["lease_id"])["acked_id"]


def walk(store: Store, inbox_id: str, limit: int) -> list[list[str]]:
    pages, cursor = [], None
    while True:
        messages, cursor = store.messages.page(inbox_id, limit, cursor)
        pages.append([message["id"] for message in messages])
        if cursor is None:
            return pages


@pytest.mark.parametrize(
    ("order", "expected"), [("oldest", ["ab", "cd", "e"]), ("newest", ["ed", "cb", "a"])]
)
def test_pages_follow_each_other(store: Store, inbox_id: str, order: str, expected: list[str]) -> None:
    store.configure(list_order=order)
    store.messages.put(inbox_id, [{}] * 5, ids="abcde")
    assert ["".join(page) for page in walk(store, inbox_id, 2)] == expected


def test_a_message_that_goes_away_shifts_no_page(store: Store, inbox_id: str) -> None:
    store.messages.put(inbox_id, [{}] * 4, ids="abcd")
    _, cursor = store.messages.page(inbox_id, 2)
    store.messages.acknowledge(inbox_id, store.messages.lease(inbox_id, lease_limit=2)["lease_id"])
    second, _ = store.messages.page(inbox_id, 2, cursor)
    assert [message["id"] for message in second] == ["c", "d"]


def test_acknowledged_messages_are_not_listed(store: Store, inbox_id: str) -> None:
    store.messages.put(inbox_id, [{}, {}], ids="ab")
    store.messages.acknowledge(inbox_id, store.messages.lease(inbox_id)["lease_id"], ["a"])
    assert walk(store, inbox_id, 10) == [["b"]]


def test_a_list_shows_no_payload(store: Store, inbox_id: str) -> None:
    store.messages.put(inbox_id, [{"secret": 1}])
    (message,) = store.messages.page(inbox_id, 10)[0]
    assert set(message) == {"id", "created_at", "status", "message_attributes"}


def test_every_cursor_needs_percent_encoding(store: Store, inbox_id: str) -> None:
    store.messages.put(inbox_id, [{}] * 12)
    _, cursor = store.messages.page(inbox_id, 1)
    for _ in range(10):
        assert cursor is not None
        assert unquote_plus(cursor) != cursor
        with pytest.raises(ServiceError, match="cursor"):
            store.messages.page(inbox_id, 1, unquote_plus(cursor))
        _, cursor = store.messages.page(inbox_id, 1, cursor)


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
