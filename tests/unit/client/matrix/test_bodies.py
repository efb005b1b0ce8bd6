"""Answers of 2xx that are no answers, and odd ones that are: what a caller gets, and what is not believed."""

from __future__ import annotations

import gzip
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
from tests.unit.client.senders import SENDERS

READING = [name for name in CALLS if name != "unenroll_promotion"]
OF_EACH_READER = (
    *("get_inbox", "list_inboxes", "list_messages", "lease_messages", "acknowledge_messages"),
    *("guess", "list_templates", "app_token"),
)
"""A call for each function of the client that reads an answer; which call is read by which, see below."""


def complaint(name: str, outcome: Outcome, *says: str) -> str:
    """What is wrong with a call whose answer is not to be believed, and which may have had its effect."""
    due = Expected(
        errors.TransportError, (name, *says), repeated(name), has={"sent": True, "permanent": False}
    )
    return due.complaint(outcome)


UNREADABLE: dict[str, tuple[bytes, str]] = {
    "an HTML page": (b"<html><body>Log in</body></html>", "text/html"),
    "an HTML page that is called JSON": (b"<html>", "application/json"),
    "half of the JSON": (b'{"id": "an-id", "results": [', "application/json"),
    "JSON and then more": (b'{"id": "an-id"} {"id": "another"}', "application/json"),
    "JSON with single quotes": (b"{'id': 'an-id'}", "application/json"),
    "no UTF-8": (b'["\xff\xfe\xfa"]', "application/json"),
    "Latin-1": ('["é"]'.encode("latin-1"), "application/json; charset=latin-1"),
    "bytes": (bytes(range(256)), "application/octet-stream"),
    "a million brackets": (b"[" * 1_000_000, "application/json"),
}


@pytest.mark.parametrize("name", [*OF_EACH_READER, "unenroll_promotion"])
def test_a_body_that_is_no_json_is_no_answer(name: str, service: Service) -> None:
    found = {}
    for title, (body, content_type) in UNREADABLE.items():
        outcome = service.play(STEPS, name, answer(200, body, {"Content-Type": content_type}))
        found[title] = complaint(name, outcome, "status 200", f"not JSON ({content_type}, {len(body)} bytes)")
    check(found)


@pytest.mark.parametrize("name", OF_EACH_READER)
def test_an_empty_answer_of_200_is_none(name: str, service: Service) -> None:
    empty = {"empty": answer(200, b""), "no content": answer(204, b""), "blank": answer(200, b" \r\n")}
    check(
        {title: complaint(name, service.play(STEPS, name, each), "not JSON") for title, each in empty.items()}
    )


@pytest.mark.parametrize("name", READING)
def test_json_of_another_kind_is_no_answer(name: str, service: Service) -> None:
    other = b'{"something": "else"}' if isinstance(GOOD[name], list) else b'[{"id": 1}]'
    found = {}
    for body in (b"null", b"true", b"0", b'"text"', b"[null]", b"[[]]", b'["text"]', b'[{"id": {}}]', other):
        outcome = service.play(STEPS, name, answer(200, body))
        found[body.decode()] = complaint(name, outcome, "the answer with status 200 has a body that is not ")
    check(found)


def without(value: dict[str, Any], field: str) -> dict[str, Any]:
    return {key: each for key, each in value.items() if key != field}


WRONG_FIELDS: dict[str, list[Any]] = {
    **{
        name: [without(INBOX, "id"), without(INBOX, "status"), {**INBOX, "id": 7}, {**INBOX, "status": None}]
        for name in READING
        if GOOD[name] is INBOX
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
    "list_messages": [PAGE, {**PAGE, "results": "none"}, {**PAGE, "results": [{**MESSAGE, "id": []}]}],
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


def everywhere(value: Any) -> Any:
    """A value with another field in each of its objects, and each text of an enumeration unheard of."""
    if isinstance(value, list):
        return [everywhere(each) for each in value]
    if not isinstance(value, dict):
        return value
    more = {key: everywhere(each) for key, each in value.items()}
    more |= {key: "on_holiday" for key in ("status", "paused_reason", "token_type") if key in more}
    return {**more, "color": {"new": [1, None, "é"]}}


def forms(name: str) -> dict[str, tuple[Any, bytes]]:
    """Values, and the odd answers that they come in."""
    good, odd = GOOD[name], everywhere(GOOD[name])
    plain = json.dumps(good).encode()
    padding = "x" * 10_000_000
    big = [*good, {"id": 2, "x": padding}] if isinstance(good, list) else {**good, "x": padding}
    return {
        "further fields and unknown words": (odd, answer(200, odd)),
        "called text": (good, answer(200, good, {"Content-Type": "text/plain"})),
        "called HTML": (good, answer(200, good, {"Content-Type": "text/html; charset=utf-8"})),
        "called nothing": (good, answer(200, good)),
        "called nonsense": (good, answer(200, good, {"Content-Type": ";;=\xff/"})),
        "of another status": (good, answer(299, good)),
        "with a byte order mark": (good, answer(200, b"\xef\xbb\xbf" + plain)),
        "in UTF-16": (good, answer(200, json.dumps(good).encode("utf-16"))),
        "compressed": (good, answer(200, gzip.compress(plain), {"Content-Encoding": "gzip"})),
        "after interim answers": (good, b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + answer(200, good)),
        "10 MB where 1 kB is due": (big, answer(200, big)),
        "10 MB of blanks": (good, answer(200, b" " * 10_000_000 + plain)),
    }


@pytest.mark.parametrize("name", ["get_inbox", "lease_messages"])
@pytest.mark.parametrize("kind", SENDERS)
def test_each_sender_tells_what_is_no_answer(kind: str, name: str, service: Service) -> None:
    page, empty = answer(200, b"<html>", {"Content-Type": "text/html"}), answer(200, b"")
    found = {
        "a page": complaint(name, service.play(kind, name, page), "not JSON (text/html, 6 bytes)"),
        "empty": complaint(name, service.play(kind, name, empty), "not JSON"),
        "a text": complaint(name, service.play(kind, name, answer(200, b'"text"')), "a body that is not "),
    }
    check(found)


@pytest.mark.parametrize("name", ["lease_messages", "list_templates"])
@pytest.mark.parametrize("kind", SENDERS)
def test_an_odd_answer_is_passed_on_as_it_is(kind: str, name: str, service: Service) -> None:
    found = {}
    for title, (value, reply) in forms(name).items():
        outcome = service.play(kind, name, reply)
        if isinstance(outcome.value, dict):
            outcome.value.pop("sent_at", None)  # the client adds it to a lease
        right = outcome.error is None and outcome.value == value and outcome.sent == 1
        found[title] = "" if right else f"{outcome.error!r}, {str(outcome.value)[:100]}, {outcome.sent} times"
    check(found)


@pytest.mark.parametrize("kind", SENDERS)
def test_an_answer_without_a_value_needs_no_body(kind: str, service: Service) -> None:
    for reply in (answer(204, b""), answer(200, b""), answer(202, {"any": "thing"})):
        outcome = service.play(kind, "unenroll_promotion", reply)
        assert (outcome.value, outcome.error, outcome.sent) == (None, None, 1)


@pytest.mark.parametrize("kind", SENDERS)
def test_odd_attributes_of_a_lease_strand_none_of_its_messages(kind: str, service: Service) -> None:
    good = GOOD["lease_messages"]
    for odd in (None, "active", 5, [], [{}]):
        results = [{**MESSAGE, "message_attributes": odd}, {"id": "m-2"}]
        body = {**good, "inbox_attributes": odd, "results": results}
        outcome = service.play(kind, "lease_messages", answer(201, body))
        assert [each["id"] for each in outcome.value["results"]] == ["m-1", "m-2"]
        assert outcome.value["inbox_attributes"] is None
        assert outcome.value["results"][0]["message_attributes"] is None
