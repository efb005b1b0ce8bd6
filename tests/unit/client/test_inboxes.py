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


@pytest.mark.specification("11.2 404")
def test_an_id_that_is_unknown_is_not_taken_for_a_name(send: Sender, emulator: EmulatorServer) -> None:
    with pytest.raises(NotFoundError):
        get(send, "00000000-0000-0000-0000-000000000000")
    assert emulator.count("list_inboxes") == 0


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
