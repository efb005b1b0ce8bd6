"""Messages put, changed and listed, with a clock moved by hand."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote_plus

import pytest

from airflow_provider_workflow.emulator.rules.errors import ServiceError
from airflow_provider_workflow.emulator.rules.store import Store


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
