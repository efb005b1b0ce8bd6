"""Calls that are sent again as their answer was lost: they have their effect once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, nullcontext
from typing import Any

import pytest

from airflow_provider_workflow.client import api, errors
from airflow_provider_workflow.client.call import Call
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.client.calls import SUBSCRIPTION, operation
from tests.unit.client.senders import SyncSender

Service = EmulatorServer


def leased(service: Service) -> str:
    service.put("orders", {"n": 1}, {"n": 2})
    lease: str = service.store.messages.lease(service.open_inbox("orders"))["lease_id"]
    return lease


def named(name: str) -> Callable[[Service], int]:
    return lambda service: service.store.inboxes.page(10, 0, name=name)[0]


def counted(counter: str) -> Callable[[Service], int]:
    return lambda service: int(service.summary("orders")["counters"][counter])


REPEATED: dict[str, tuple[Callable[[Service], Call[Any]], Callable[[Service], int]]] = {
    "ensure_inbox": (lambda _: api.ensure_inbox("new", SUBSCRIPTION), named("new")),
    "update_inbox": (
        lambda service: api.update_inbox(service.open_inbox("orders"), "https://a/b"),
        lambda service: int(service.summary("orders")["inbox"]["notification_url"] == "https://a/b"),
    ),
    "delete_inbox": (
        lambda service: api.delete_inbox(service.open_inbox("orders")),
        lambda service: 1 - named("orders")(service),
    ),
    "acknowledge_messages": (
        lambda service: api.acknowledge_messages(service.open_inbox("orders"), leased(service)),
        lambda service: counted("acks")(service) // 2,
    ),
    "release_messages": (
        lambda service: api.release_messages(service.open_inbox("orders"), leased(service)),
        lambda service: counted("releases")(service) // 2,
    ),
    "unenroll_promotion": (
        lambda _: api.unenroll_promotion("e-1"),
        lambda service: len(service.store.unenrolled),
    ),
}
"""How a call is made ready, and how often it had its effect, as the service itself knows."""


@pytest.mark.parametrize("name", REPEATED)
def test_a_call_that_is_repeated_after_its_effect_has_it_once(
    name: str, settings: Settings, emulator: EmulatorServer
) -> None:
    make, done = REPEATED[name]
    call = make(emulator)
    emulator.fault("drop", operation=operation(name), times=1, when="after")
    is_gone = pytest.raises(errors.NotFoundError) if name == "delete_inbox" else nullcontext()
    with closing(SyncSender(settings)) as send, is_gone:
        send(call)
    assert done(emulator) == 1
    assert emulator.count(operation(name)) == 2
