"""Every status with every documented body, to every call: which error, what it says, how often it is sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.unit.client.matrix.cells import CALLS, STEPS, Service, check
from tests.unit.client.matrix.shapes import ODD_SHAPES, OTHER_STATUSES, SHAPES, STATUSES, expected
from tests.unit.client.senders import SENDERS


def complaints(
    service: Service, kind: str, name: str, statuses: Iterable[int], shapes: Iterable[str]
) -> dict[str, str]:
    """What is wrong with each cell."""
    found = {}
    for status in statuses:
        for title in shapes:
            shape = {**SHAPES, **ODD_SHAPES}[title]
            outcome = service.play(kind, name, shape.answer(status))
            found[f"{status}, {title}"] = expected(name, status, shape).complaint(outcome)
    return found


@pytest.mark.specification("11.3 401, 403, 409, 429, 503, 504", "11.3 500")
@pytest.mark.parametrize("name", CALLS)
def test_a_documented_error_becomes_its_exception(name: str, service: Service) -> None:
    check(complaints(service, STEPS, name, STATUSES, SHAPES))


@pytest.mark.specification("11.1 errors")
@pytest.mark.parametrize("name", ["get_inbox", "lease_messages", "guess"])
def test_an_error_in_no_documented_form_becomes_an_exception_too(name: str, service: Service) -> None:
    check(complaints(service, STEPS, name, [*STATUSES, *OTHER_STATUSES], ODD_SHAPES))


def test_a_status_that_no_table_has_becomes_the_error_of_its_hundred(service: Service) -> None:
    check(complaints(service, STEPS, "get_inbox", OTHER_STATUSES, SHAPES))


@pytest.mark.parametrize("name", ["get_inbox", "lease_messages", "app_token"])
@pytest.mark.parametrize("kind", SENDERS)
def test_each_sender_passes_an_error_on_whole(kind: str, name: str, service: Service) -> None:
    shapes = ("an envelope with all fields", "an HTML page", "an empty body", "half a body", "a megabyte")
    check(complaints(service, kind, name, (400, 401, 429, 503), shapes))


@pytest.mark.parametrize(
    ("kind", "name"),
    [(STEPS, "get_inbox"), (STEPS, "lease_messages"), *((kind, "get_inbox") for kind in SENDERS)],
)
def test_what_is_wrong_with_the_token_endpoint_is_said_of_it(kind: str, name: str, service: Service) -> None:
    found = {}
    for status in (*STATUSES, *OTHER_STATUSES) if kind == STEPS else (400, 401, 429, 503):
        for title, shape in SHAPES.items():
            outcome = service.play(kind, name, b"", token=shape.answer(status), warm=False)
            due = expected("app_token", status, shape)
            # Asked for as often as any token, and nothing is sent without one.
            found[f"{status}, {title}"] = replace(due, sent=0, tokens=due.sent).complaint(outcome)
    check(found)
