"""The calls that change something, and how the service itself knows whether they did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from airflow_provider_workflow.client import api, errors
from airflow_provider_workflow.client.call import Call
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.client.calls import SUBSCRIPTION

URL = "https://example.com/told"
Service = EmulatorServer


@dataclass(frozen=True)
class Effect:
    """
    A call that changes something.

    :param make: makes ready what it changes, and the call.
    :param done: how often it had its effect, as the service itself knows.
    :param again: the error of a call that is sent again after its effect; None where it succeeds.
    """

    make: Callable[[Service], Call[Any]]
    done: Callable[[Service], int]
    again: type[errors.WorkflowError] | None = None


def leased(service: Service) -> str:
    service.put("orders", {"n": 1}, {"n": 2})
    lease: str = service.store.messages.lease(service.open_inbox("orders"))["lease_id"]
    return lease


def named(name: str) -> Callable[[Service], int]:
    return lambda service: service.store.inboxes.page(10, 0, name=name)[0]


def counted(counter: str) -> Callable[[Service], int]:
    return lambda service: int(service.summary("orders")["counters"][counter])


def status_is(status: str) -> Callable[[Service], int]:
    return lambda service: int(service.summary("orders")["inbox"]["status"] == status)


def paused(service: Service) -> Call[Any]:
    inbox_id = service.open_inbox("orders")
    service.store.inboxes.pause(inbox_id)
    return api.resume_inbox(inbox_id)


def with_code(service: Service) -> Call[Any]:
    redirect = service.store.settings.redirect_uris[0]
    address = service.store.tokens.approve({"redirect_uri": redirect, "scope": "workflow", "state": "s"})
    return api.exchange_code(parse_qs(urlsplit(address).query)["code"][0], redirect)


def with_refresh_token(service: Service) -> Call[Any]:
    code = with_code(service).form or {}
    answer = service.store.tokens.grant(dict(code), (service.client_id, service.client_secret))
    return api.refresh_user_token(answer["refresh_token"])


def tokens_beside(others: int) -> Callable[[Service], int]:
    """Access tokens that were issued, apart from so many that the call itself has no part in."""
    return lambda service: service.store.tokens.expire() - others


EFFECTS: dict[str, Effect] = {
    "create_inbox": Effect(lambda _: api.create_inbox(SUBSCRIPTION, "new"), named("new")),
    "ensure_inbox": Effect(lambda _: api.ensure_inbox("new", SUBSCRIPTION), named("new")),
    "update_inbox": Effect(
        lambda service: api.update_inbox(service.open_inbox("orders"), URL),
        lambda service: int(service.summary("orders")["inbox"]["notification_url"] == URL),
    ),
    "delete_inbox": Effect(
        lambda service: api.delete_inbox(service.open_inbox("orders")),
        lambda service: 1 - named("orders")(service),
        errors.NotFoundError,
    ),
    "pause_inbox": Effect(lambda service: api.pause_inbox(service.open_inbox("orders")), status_is("paused")),
    "resume_inbox": Effect(paused, status_is("active")),
    "lease_messages": Effect(
        lambda service: api.lease_messages(service.put("orders", {}) and service.open_inbox("orders")),
        counted("leases"),
    ),
    "acknowledge_messages": Effect(
        lambda service: api.acknowledge_messages(service.open_inbox("orders"), leased(service)),
        lambda service: counted("acks")(service) // 2,
    ),
    "release_messages": Effect(
        lambda service: api.release_messages(service.open_inbox("orders"), leased(service)),
        lambda service: counted("releases")(service) // 2,
    ),
    "unenroll_promotion": Effect(
        lambda _: api.unenroll_promotion("e-1"), lambda service: len(service.store.unenrolled)
    ),
    "exchange_code": Effect(with_code, tokens_beside(0)),
    "refresh_user_token": Effect(with_refresh_token, tokens_beside(1)),
}
