"""Every status with every documented body, to every call: which error, what it says, how often it is sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.unit.client.matrix.cells import CALLS, Service, check
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
@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", SENDERS)
def test_a_documented_error_becomes_its_exception(
    kind: str, name: str, status: int, service: Service
) -> None:
    check(complaints(service, kind, name, [status], SHAPES))


@pytest.mark.specification("11.1 errors")
@pytest.mark.parametrize("name", ["get_inbox", "lease_messages", "guess"])
@pytest.mark.parametrize("kind", SENDERS)
def test_an_error_in_no_documented_form_becomes_an_exception_too(
    kind: str, name: str, service: Service
) -> None:
    check(complaints(service, kind, name, [*STATUSES, *OTHER_STATUSES], ODD_SHAPES))


@pytest.mark.parametrize("status", OTHER_STATUSES)
@pytest.mark.parametrize("kind", SENDERS)
def test_a_status_that_no_table_has_becomes_the_error_of_its_hundred(
    kind: str, status: int, service: Service
) -> None:
    check(complaints(service, kind, "get_inbox", [status], SHAPES))


@pytest.mark.parametrize("name", ["get_inbox", "lease_messages", "acknowledge_messages"])
@pytest.mark.parametrize("kind", SENDERS)
def test_what_is_wrong_with_the_token_endpoint_is_said_of_it(kind: str, name: str, service: Service) -> None:
    found = {}
    for status in (*STATUSES, *OTHER_STATUSES):
        for title, shape in SHAPES.items():
            outcome = service.play(kind, name, b"", token=shape.answer(status), warm=False)
            due = expected("app_token", status, shape)
            # Asked for as often as any token, and nothing is sent without one.
            found[f"{status}, {title}"] = replace(due, sent=0, tokens=due.sent).complaint(outcome)
    check(found)
