"""Names become ids, and listings take several pages."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_workflow.client import api, inboxes
from airflow_provider_workflow.client.errors import NotFoundError, TransportError
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.client.senders import Sender


def get(send: Sender, inbox: str) -> Any:
    return send.run(inboxes.at_inbox(send.client.settings, inbox, api.get_inbox))


def test_a_name_is_looked_up_once(send: Sender, emulator: EmulatorServer) -> None:
    inbox_id = emulator.open_inbox("orders")
    assert [get(send, "orders")["id"], get(send, "orders")["id"]] == [inbox_id, inbox_id]
    assert emulator.count("list_inboxes") == 1


def test_an_id_is_not_looked_up(send: Sender, emulator: EmulatorServer) -> None:
    inbox_id = emulator.open_inbox("orders")
    assert get(send, inbox_id)["name"] == "orders"
    assert emulator.count("list_inboxes") == 0


def test_an_inbox_that_was_created_again_is_found_again(send: Sender, emulator: EmulatorServer) -> None:
    first = emulator.open_inbox("orders")
    get(send, "orders")
    emulator.store.inboxes.delete(first)
    second = emulator.open_inbox("orders")
    assert get(send, "orders")["id"] == second
    assert (emulator.count("list_inboxes"), emulator.count("get_inbox")) == (2, 3)


def test_an_inbox_that_stays_away_is_looked_for_once_more(send: Sender, emulator: EmulatorServer) -> None:
    inbox_id = emulator.open_inbox("orders")
    get(send, "orders")
    emulator.store.inboxes.delete(inbox_id)
    with pytest.raises(NotFoundError, match="Inbox 'orders' does not exist"):
        get(send, "orders")
    assert (emulator.count("list_inboxes"), emulator.count("get_inbox")) == (2, 2)


@pytest.mark.specification("11.2 404")
def test_an_id_that_is_unknown_is_not_taken_for_a_name(send: Sender, emulator: EmulatorServer) -> None:
    with pytest.raises(NotFoundError):
        get(send, "00000000-0000-0000-0000-000000000000")
    assert emulator.count("list_inboxes") == 0


def test_an_inbox_that_is_being_deleted_is_passed_over(send: Sender, emulator: EmulatorServer) -> None:
    emulator.store.configure(deleting_seconds=60)
    emulator.store.inboxes.delete(emulator.open_inbox("orders"))
    with pytest.raises(NotFoundError):
        get(send, "orders")


GOING = {"id": "one", "name": "orders", "status": "deleting"}
NEW = {"id": "two", "name": "orders", "status": "active"}
NOTHING_LEASED = {"lease_id": None, "results": [], "inbox_attributes": {"status": "deleting"}}


def known_as_one(settings: Settings, make: Any) -> Any:
    """A call to "orders", whose id is known from before, and which is sent to that id first."""
    looking_up = inboxes.look_up(settings, "orders")
    next(looking_up)
    with pytest.raises(StopIteration):
        looking_up.send({"results": [{**NEW, "id": "one"}], "next": None})
    exchange = inboxes.at_inbox(settings, "orders", make)
    assert next(exchange).path.startswith("/inboxes/one")
    return exchange


@pytest.mark.parametrize(
    ("make", "answer"), [(api.get_inbox, GOING), (api.lease_messages, NOTHING_LEASED)], ids=["get", "lease"]
)
def test_a_name_whose_inbox_is_being_deleted_leads_to_the_one_that_took_it_over(
    make: Any, answer: Any, settings: Settings
) -> None:
    exchange = known_as_one(settings, make)
    assert exchange.send(answer).name == "list_inboxes"
    assert exchange.send({"results": [GOING, NEW], "next": None}).path.startswith("/inboxes/two")
    with pytest.raises(StopIteration) as end:
        exchange.send(NEW)
    assert end.value.value == NEW
    assert next(inboxes.at_inbox(settings, "orders", make)).path.startswith("/inboxes/two")


def test_an_inbox_that_is_being_deleted_is_passed_over_though_its_name_is_known(settings: Settings) -> None:
    exchange = known_as_one(settings, api.get_inbox)
    exchange.send(GOING)
    with pytest.raises(NotFoundError, match="Inbox 'orders' does not exist"):
        exchange.send({"results": [GOING], "next": None})


def test_what_an_inbox_that_is_being_deleted_still_hands_out_is_taken(settings: Settings) -> None:
    exchange = known_as_one(settings, api.lease_messages)
    lease = {**NOTHING_LEASED, "lease_id": "l", "results": [{"id": "a"}]}
    with pytest.raises(StopIteration) as end:
        exchange.send(lease)
    assert end.value.value == lease


def test_an_inbox_that_is_deleted_now_takes_no_other_one_with_it(settings: Settings) -> None:
    exchange = known_as_one(settings, api.delete_inbox)
    with pytest.raises(StopIteration) as end:
        exchange.send(GOING)
    assert end.value.value == GOING
    assert next(inboxes.at_inbox(settings, "orders", api.get_inbox)).name == "list_inboxes"


def test_connections_do_not_share_what_a_name_means(settings: Settings) -> None:
    page = {"results": [{"id": "one", "name": "orders", "status": "active"}], "next": None}
    exchange = inboxes.at_inbox(settings, "orders", api.get_inbox)
    next(exchange)
    assert exchange.send(page).path == "/inboxes/one"
    other = inboxes.at_inbox(Settings("https://b", "i", "s", "https://t"), "orders", api.get_inbox)
    assert next(other).name == "list_inboxes"


def test_a_service_that_does_not_filter_by_name_is_searched_to_its_end(settings: Settings) -> None:
    exchange = inboxes.look_up(settings, "wanted")
    next(exchange)
    page = {"results": [{"id": str(n), "name": f"n{n}", "status": "active"} for n in range(100)]}
    second = exchange.send({**page, "next": "https://a/inboxes?offset=100"})
    assert second.query["offset"] == "100"
    with pytest.raises(StopIteration) as end:
        exchange.send({"results": [{"id": "x", "name": "wanted", "status": "active"}], "next": None})
    assert end.value.value == "x"


def test_all_inboxes_come_from_all_pages(send: Sender, emulator: EmulatorServer) -> None:
    names = [f"inbox-{n:03}" for n in range(205)]
    for name in names:
        emulator.open_inbox(name)
    assert [each["name"] for each in send.run(inboxes.all_inboxes())] == names
    assert emulator.count("list_inboxes") == 3


def test_all_messages_come_from_all_pages(send: Sender, emulator: EmulatorServer) -> None:
    emulator.store.configure(page_size=3)
    ids = emulator.put("orders", *({"n": n} for n in range(7)))
    found = send.run(inboxes.all_messages(emulator.open_inbox("orders")))
    assert [each["id"] for each in found] == ids
    assert emulator.count("list_messages") == 3


@pytest.mark.parametrize(("limit", "expected", "requests"), [(None, 182, 2), (150, 150, 2), (20, 20, 1)])
def test_templates_come_until_a_short_page_or_the_limit(
    send: Sender, emulator: EmulatorServer, limit: int | None, expected: int, requests: int
) -> None:
    found = send.run(inboxes.all_templates(None, limit))
    assert len({each["id"] for each in found}) == expected
    assert emulator.count("templates") == requests


SAME_PAGE: dict[str, tuple[Any, Any]] = {
    "inboxes": (inboxes.all_inboxes, {"results": [{"id": "1"}], "next": "https://a?offset=0"}),
    "messages": (
        lambda: inboxes.all_messages("i"),
        {"results": [{"id": "1"}], "next": "https://a?cursor=same"},
    ),
    "templates": (lambda: inboxes.all_templates(None, None), [{"id": n} for n in range(100)]),
}


@pytest.mark.parametrize("listing", SAME_PAGE)
def test_a_listing_ends_when_the_service_shows_the_same_page_again(listing: str) -> None:
    make, page = SAME_PAGE[listing]
    exchange = make()
    next(exchange)
    exchange.send(page)
    with pytest.raises(StopIteration) as end:
        exchange.send(page)
    found = end.value.value
    assert len(found) == len({each["id"] for each in found}) > 0


def entries(number: int) -> list[dict[str, Any]]:
    return [{"id": f"{number}-{n}", "name": "another", "status": "active"} for n in range(100)]


ENDLESS: dict[str, tuple[Any, Any, int]] = {
    "inboxes": (
        lambda: inboxes.all_inboxes(most=50),
        lambda n: {"results": entries(n), "next": "https://a"},
        50,
    ),
    "messages": (
        lambda: inboxes.all_messages("i"),
        lambda n: {"results": [{"id": n}], "next": f"https://a?cursor={n}"},
        10_000,
    ),
    "templates": (lambda: inboxes.all_templates(None, None, most=50), entries, 50),
    "a look-up": (
        lambda: inboxes.look_up(Settings("https://b", "i", "s", "https://t"), "orders"),
        lambda n: {"results": entries(n), "next": "https://a"},
        100,
    ),
}


@pytest.mark.parametrize("listing", ENDLESS)
def test_a_listing_that_never_ends_is_an_error(listing: str) -> None:
    make, page, most = ENDLESS[listing]
    exchange = make()
    next(exchange)
    for number in range(most - 1):
        exchange.send(page(number))
    with pytest.raises(
        TransportError, match=f"has no end: [0-9]+ entries were read in {most} pages"
    ) as raised:
        exchange.send(page(most))
    assert raised.value.permanent


def test_the_first_pages_of_a_listing_that_never_ends_are_no_error() -> None:
    exchange = inboxes.first_messages("i", 3)
    next(exchange)
    for number in range(2):
        exchange.send({"results": [{"id": number}], "next": f"https://a?cursor={number}"})
    with pytest.raises(StopIteration) as end:
        exchange.send({"results": [{"id": 2}], "next": "https://a?cursor=2"})
    assert end.value.value == ([{"id": 0}, {"id": 1}, {"id": 2}], True)
