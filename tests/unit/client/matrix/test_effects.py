"""Faults before and after the effect of a call: what was done, what was not, and what the caller is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from airflow_provider_workflow.client import api, errors
from airflow_provider_workflow.client.call import Call
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.client.calls import SUBSCRIPTION, operation
from tests.unit.client.conftest import MakeSender, settings_of
from tests.unit.client.matrix.cells import check, repeated
from tests.unit.client.senders import SENDERS, Sender

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


FAULTS: dict[str, dict[str, Any]] = {
    "dropped": {"kind": "drop"},
    "503": {"kind": "status", "status": 503},
    "a redirect": {"kind": "status", "status": 307, "headers": {"Location": "http://localhost/"}},
}
"""One of each kind: the connection breaks, the call may be sent again, it may not."""
CALLS = [("requests", name) for name in EFFECTS]
"""What is sent again, and what is not, in a task: a trigger sends each call once."""
ALWAYS = [
    *((*call, *fault) for call in CALLS for fault in (("dropped", "after"), ("503", "before"))),
    *((kind, "lease_messages", "a redirect", "after") for kind in SENDERS),
]


def told(send: Sender, call: Call[Any]) -> Any:
    """What a caller learns: a value, or an error."""
    try:
        return send(call)
    except errors.WorkflowError as error:
        return error


@pytest.mark.parametrize(("make_send", "name", "fault", "when"), ALWAYS, indirect=["make_send"])
def test_a_call_that_fails_every_time_says_so_and_has_its_effect_once_at_most(
    name: str, fault: str, when: str, make_send: MakeSender, emulator: EmulatorServer
) -> None:
    effect = EFFECTS[name]
    call = effect.make(emulator)
    emulator.fault(operation=operation(name), times=None, when=when, **FAULTS[fault])
    send = make_send(settings_of(emulator))
    answer = told(send, call)
    check(
        {
            "told": "" if isinstance(answer, errors.WorkflowError) else f"no error: {answer}",
            "done": _differs(effect.done(emulator), 1 if when == "after" else 0),
            "attempts": _differs(len(send.naps) + 1, 1 if fault == "a redirect" else repeated(name)),
            # What may have been done is never called unsent.
            "sent": "unsent" if isinstance(answer, errors.TransportError) and not answer.sent else "",
        }
    )


@pytest.mark.parametrize("fault", ["dropped", "503"])
@pytest.mark.parametrize(("make_send", "name"), CALLS, indirect=["make_send"])
def test_a_call_that_failed_after_its_effect_has_it_once_also_where_it_is_repeated(
    name: str, fault: str, make_send: MakeSender, emulator: EmulatorServer
) -> None:
    effect = EFFECTS[name]
    call = effect.make(emulator)
    # aiohttp sends a GET, PUT or DELETE again by itself when a connection broke.
    times = 2 if fault == "dropped" else 1
    emulator.fault(operation=operation(name), times=times, when="after", **FAULTS[fault])
    answer = told(make_send(settings_of(emulator)), call)
    assert effect.done(emulator) == 1
    if repeated(name) == 1:
        assert isinstance(answer, errors.WorkflowError)
    elif effect.again is not None:
        assert type(answer) is effect.again
    else:
        assert not isinstance(answer, errors.WorkflowError)


# A call that is sent once, one that is repeated, and one that aiohttp repeats by itself.
@pytest.mark.parametrize("name", ["lease_messages", "acknowledge_messages", "delete_inbox"])
@pytest.mark.parametrize("make_send", SENDERS, indirect=True)
def test_half_an_answer_comes_after_the_effect(
    name: str, make_send: MakeSender, emulator: EmulatorServer
) -> None:
    effect = EFFECTS[name]
    call = effect.make(emulator)
    emulator.fault("truncate", operation=operation(name))
    answer = told(make_send(settings_of(emulator)), call)
    assert effect.done(emulator) == 1
    if repeated(name) == 1:
        assert isinstance(answer, errors.TransportError)
        assert answer.sent


@pytest.mark.parametrize(("make_send", "name"), CALLS, indirect=["make_send"])
def test_a_call_that_was_too_many_is_sent_again_and_has_its_effect_once(
    name: str, make_send: MakeSender, emulator: EmulatorServer
) -> None:
    effect = EFFECTS[name]
    call = effect.make(emulator)
    emulator.fault("status", operation=operation(name), status=429, headers={"Retry-After": "30"}, times=3)
    assert not isinstance(told(make_send(settings_of(emulator)), call), errors.WorkflowError)
    assert effect.done(emulator) == 1


def _differs(found: int, due: int) -> str:
    return "" if found == due else f"{found} and not {due}"
