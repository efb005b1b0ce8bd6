"""Answers of 2xx that are no answers: what a caller is told, and what is not believed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_workflow.client import errors
from tests.unit.client.matrix.cells import (
    CALLS,
    GOOD,
    INBOX,
    MESSAGE,
    PAGE,
    STEP,
    STEPS,
    Expected,
    Outcome,
    Service,
    check,
    repeated,
)
from tests.unit.client.scripted import answer

OF_EACH_READER = (
    *("get_inbox", "list_inboxes", "list_messages", "lease_messages", "acknowledge_messages"),
    *("guess", "list_templates", "app_token"),
)
"""A call for each function of the client that reads an answer."""


def complaint(name: str, outcome: Outcome, *says: str) -> str:
    """What is wrong with a call whose answer is not to be believed, and which may have had its effect."""
    due = Expected(
        errors.TransportError, (name, *says), repeated(name), has={"sent": True, "permanent": False}
    )
    return due.complaint(outcome)


UNREADABLE: dict[str, tuple[bytes, str]] = {
    "an HTML page": (b"<html><body>Log in</body></html>", "text/html"),
    "JSON and then more": (b'{"id": "an-id"} {"id": "another"}', "application/json"),
    "no UTF-8": (b'["\xff\xfe\xfa"]', "application/json"),
    "a million brackets": (b"[" * 1_000_000, "application/json"),
    "blanks": (b" \r\n", "application/json"),
    "nothing": (b"", "text/plain"),
}


@pytest.mark.parametrize("name", OF_EACH_READER)
def test_what_is_no_json_or_json_of_another_kind_is_no_answer(name: str, service: Service) -> None:
    found = {}
    for title, (body, content_type) in UNREADABLE.items():
        outcome = service.play(STEPS, name, answer(200, body, {"Content-Type": content_type}))
        found[title] = complaint(name, outcome, "status 200", f"not JSON ({content_type}, {len(body)} bytes)")
    other = b'{"something": "else"}' if isinstance(GOOD[name], list) else b'[{"id": 1}]'
    for body in (b"null", b"0", b'"text"', b"[null]", b"[[]]", b'[{"id": {}}]', other):
        outcome = service.play(STEPS, name, answer(200, body))
        found[body.decode()] = complaint(name, outcome, "the answer with status 200 has a body that is not ")
    check(found)


def without(value: dict[str, Any], field: str) -> dict[str, Any]:
    return {key: each for key, each in value.items() if key != field}


WRONG_FIELDS: dict[str, list[Any]] = {
    **{
        name: [without(INBOX, "id"), without(INBOX, "status"), {**INBOX, "id": 7}, {**INBOX, "status": None}]
        for name in CALLS
        if GOOD[name] is INBOX and name != "unenroll_promotion"
    },
    "guess": [
        *(without(GOOD["guess"], field) for field in ("title", "steps", "prefilled_url")),
        {**GOOD["guess"], "prefilled_url": None},
        {**GOOD["guess"], "steps": {}},
        {**GOOD["guess"], "steps": [{}]},
        {**GOOD["guess"], "steps": [{"step": "x"}]},
        {**GOOD["guess"], "steps": [{"step": {"app": "Mail"}}]},
        {**GOOD["guess"], "steps": [{**STEP, "alternatives": [{"api": "x"}]}]},
    ],
    "list_templates": [[{"id": [1]}], [None]],
    "list_inboxes": [
        PAGE,
        {**PAGE, "results": None},
        {**PAGE, "results": {}},
        {**PAGE, "results": [None]},
        {**PAGE, "results": [without(INBOX, "id")]},
        {**PAGE, "results": [INBOX], "next": 5},
        {**PAGE, "results": [INBOX], "next": {"href": "x"}},
    ],
    "list_messages": [
        {**PAGE, "results": "none"},
        {**PAGE, "results": [{**MESSAGE, "id": []}]},
        {**PAGE, "results": [MESSAGE], "next": True},
    ],
    "lease_messages": [
        without(GOOD["lease_messages"], "results"),
        {**GOOD["lease_messages"], "results": "none"},
        {**GOOD["lease_messages"], "results": {"m-1": {}}},
    ],
    "acknowledge_messages": [{"acked_id": "a", "results": 1}, {"acked_id": "a", "results": ["m-1"]}],
    "release_messages": [{"released_id": "r", "results": {"m-1": True}}],
}


@pytest.mark.parametrize("name", WRONG_FIELDS)
def test_an_answer_without_what_callers_rely_on_is_none(name: str, service: Service) -> None:
    found = {}
    for body in WRONG_FIELDS[name]:
        outcome = service.play(STEPS, name, answer(200, body))
        found[json.dumps(body)] = complaint(
            name, outcome, "the answer with status 200 has a body that is not "
        )
    check(found)


def test_an_answer_without_a_value_needs_no_body(service: Service) -> None:
    name = "unenroll_promotion"
    for reply in (answer(204, b""), answer(200, b""), answer(202, {"any": "thing"})):
        outcome = service.play(STEPS, name, reply)
        assert (outcome.value, outcome.error, outcome.sent) == (None, None, 1)
    page = service.play(STEPS, name, answer(200, b"<html>"))
    assert not complaint(name, page, "not JSON (no content type, 6 bytes)")


def test_odd_attributes_of_a_lease_strand_none_of_its_messages(service: Service) -> None:
    for odd in (None, "active", [{}]):
        results = [{**MESSAGE, "message_attributes": odd}, {"id": "m-2"}]
        body = {**GOOD["lease_messages"], "inbox_attributes": odd, "results": results}
        outcome = service.play(STEPS, "lease_messages", answer(201, body))
        assert [message["id"] for message in outcome.value["results"]] == ["m-1", "m-2"]
        assert outcome.value["inbox_attributes"] is None
        assert outcome.value["results"][0]["message_attributes"] is None
