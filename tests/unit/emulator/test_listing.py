"""Pages of messages, and the summary for control."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.emulator import listing
from airflow_provider_workflow.emulator.errors import ServiceError
from airflow_provider_workflow.emulator.store import Store


def walk(store: Store, inbox_id: str, limit: int) -> list[list[str]]:
    pages, cursor = [], None
    while True:
        page = listing.messages(store, inbox_id, limit, cursor)
        pages.append([each["id"] for each in page.results])
        if page.next is None:
            return pages
        cursor = page.next


@pytest.mark.parametrize(
    ("order", "expected"), [("oldest", ["ab", "cd", "e"]), ("newest", ["ed", "cb", "a"])]
)
def test_pages_follow_each_other(store: Store, inbox_id: str, order: str, expected: list[str]) -> None:
    store.configure(list_order=order)
    store.messages.put(inbox_id, [{}] * 5, ids="abcde")
    assert ["".join(page) for page in walk(store, inbox_id, 2)] == expected


@pytest.mark.parametrize("order", ["oldest", "newest"])
def test_the_page_before_can_be_had_again(store: Store, inbox_id: str, order: str) -> None:
    store.configure(list_order=order)
    store.messages.put(inbox_id, [{}] * 5, ids="abcde")
    first = listing.messages(store, inbox_id, 2, None)
    second = listing.messages(store, inbox_id, 2, first.next)
    assert first.previous is None
    assert listing.messages(store, inbox_id, 2, second.previous).results == first.results


def test_a_message_that_goes_away_shifts_no_page(store: Store, inbox_id: str) -> None:
    store.messages.put(inbox_id, [{}] * 4, ids="abcd")
    first = listing.messages(store, inbox_id, 2, None)
    store.leases.acknowledge(inbox_id, store.leases.lease(inbox_id, lease_limit=1)["lease_id"])
    second = listing.messages(store, inbox_id, 2, first.next)
    assert [each["id"] for each in second.results] == ["c", "d"]


def test_acknowledged_messages_stay_listed_only_if_the_settings_say_so(store: Store, inbox_id: str) -> None:
    store.messages.put(inbox_id, [{}, {}], ids="ab")
    store.leases.acknowledge(inbox_id, store.leases.lease(inbox_id)["lease_id"], ["a"])
    assert walk(store, inbox_id, 10) == [["b"]]
    store.configure(acked_stay_listed=True)
    assert walk(store, inbox_id, 10) == [["a", "b"]]


def test_a_list_shows_no_payload(store: Store, inbox_id: str) -> None:
    store.messages.put(inbox_id, [{"secret": 1}])
    (message,) = listing.messages(store, inbox_id, 10, None).results
    assert set(message) == {"id", "created_at", "status", "message_attributes"}


@pytest.mark.parametrize("cursor", ["?", "bm9uc2Vuc2U", "W10", "eyJhZnRlciI6ICJ4In0"])
def test_a_cursor_of_somebody_else_is_refused(store: Store, inbox_id: str, cursor: str) -> None:
    with pytest.raises(ServiceError, match="cursor"):
        listing.messages(store, inbox_id, 10, cursor)


def test_the_summary_tells_of_every_message(store: Store, inbox_id: str) -> None:
    store.messages.put(inbox_id, [{}] * 3, ids="abc")
    store.clock.advance(1)
    lease_id = store.leases.lease(inbox_id, lease_limit=2)["lease_id"]
    store.clock.advance(1)
    store.leases.acknowledge(inbox_id, lease_id, ["a"])
    summary = listing.summary(store, inbox_id)
    start = store.clock.now() - 2
    times = [
        (each["id"], each["put_at"], each["leased_at"], each["acked_at"]) for each in summary["messages"]
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
    assert "messages" not in listing.summary(store, inbox_id, with_messages=False)
