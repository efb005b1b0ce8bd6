"""
How an answer's body becomes a value.

Only the shape that callers walk through is checked: a body of another shape is no answer of the
service (a proxy's page, a version that is not this one). Everything inside passes through untouched.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, cast

from airflow_provider_workflow.client.errors import TransportError
from airflow_provider_workflow.client.pacing import Pace
from airflow_provider_workflow.client.types import Template
from airflow_provider_workflow.client.wire import Answer

DEEPEST = 300
"""Levels: more than Airflow holds, and fewer than Python decodes."""
_STRING_OR_BRACKET = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


def nothing(answer: Answer) -> None:
    """
    No value: what such an answer says is its status.

    :raises TransportError: there is a body, and it is not JSON: the page of somebody in between.
    """
    if answer.body:
        answer.json()


def thing(answer: Answer) -> Any:
    """
    An object.

    :raises TransportError: the body is none.
    """
    body = answer.json()
    if not isinstance(body, dict):
        raise _misshapen(answer, "an object")
    return body


def inbox(answer: Answer) -> Any:
    """
    An inbox: an object with the two fields that everybody relies on.

    :raises TransportError: the body is none.
    """
    body = thing(answer)
    if not (_text(body.get("id")) and _text(body.get("status"))):
        raise _misshapen(answer, "an inbox with an id and a status")
    return _named(body)


def guess(answer: Answer) -> Any:
    """
    A suggested workflow with the fields that are required of it (docs/service.md 13.1).

    :raises TransportError: the body is none.
    """
    body = thing(answer)
    steps = body.get("steps")
    if not (_text(body.get("title"), or_empty=True) and _text(body.get("prefilled_url")) and _objects(steps)):
        raise _misshapen(answer, "a guess with title, steps and prefilled_url")
    for each in steps:
        others = each.get("alternatives")
        raw = [each.get("step"), *(others if isinstance(others, list) else ())]
        if not _objects(raw) or not all(_text(one.get(name)) for one in raw for name in ("app", "api")):
            raise _misshapen(answer, "a guess whose steps have app and api")
    return body


def receipt(answer: Answer) -> Any:
    """
    What was acknowledged or released.

    :raises TransportError: the body does not tell.
    """
    body = thing(answer)
    if body.get("results") is not None and not _objects(body["results"]):
        raise _misshapen(answer, "an object with a list of results")
    return body


def page(answer: Answer) -> Any:
    """
    A page of a listing: an object with ``results``, a list of objects, and the address ``next``.

    :raises TransportError: the body is none.
    """
    body = _with_results(answer)
    following = body.get("next")
    if not (following is None or isinstance(following, str)) or not _plain_ids(body["results"]):
        raise _misshapen(answer, "a page of a listing")
    return body


def page_of_inboxes(answer: Answer) -> Any:
    """
    A page of inboxes, each as ``inbox`` has it.

    :raises TransportError: the body is none.
    """
    body = page(answer)
    if not all(_text(each.get("id")) and _text(each.get("status")) for each in body["results"]):
        raise _misshapen(answer, "a page of inboxes with an id and a status")
    for each in body["results"]:
        _named(each)
    return body


def _named(inbox: dict[str, Any]) -> dict[str, Any]:
    """The inbox with its ``name``, which newer servers may send as ``key`` alone (docs/service.md 2)."""
    if inbox.get("name") is None and inbox.get("key") is not None:
        inbox["name"] = inbox["key"]
    return inbox


def lease(answer: Answer) -> Any:
    """
    A lease. One payload that is nested too deep to be decoded must not hide the other messages, which
    would be leased with it again and again until the service quarantines them all: such a payload is
    cut at a depth at which no Airflow holds it, so whoever starts runs refuses that message alone.

    :raises TransportError: the body is none.
    """
    try:
        return _sound(_with_results(answer))
    except TransportError as unreadable:
        try:
            return _sound(_with_results(replace(answer, body=_cut(answer.body, answer.pace))))
        except TransportError:
            raise unreadable from None


def _sound(body: Any) -> Any:
    """
    A lease whose attributes, where they are no objects, are None: its messages are leased already, and
    must not be lost over what is only said about them.
    """
    for field, holders in (("inbox_attributes", [body]), ("message_attributes", body["results"])):
        for holder in holders:
            if field in holder and not isinstance(holder[field], dict):
                holder[field] = None
    return body


def _cut(body: bytes, pace: Pace | None) -> bytes:
    """A JSON text in which null stands for whatever is nested deeper than ``DEEPEST`` levels."""
    kept: list[bytes] = []
    depth = done = 0
    for found in _STRING_OR_BRACKET.finditer(body):
        if pace is not None:
            pace()
        sign = found.group()
        if sign in (b"[", b"{"):
            depth += 1
            if depth == DEEPEST + 1:
                kept.append(body[done : found.start()] + b"null")
        elif sign in (b"]", b"}"):
            if depth == DEEPEST + 1:
                done = found.end()
            depth -= 1
    return b"".join((*kept, body[done:]))


def templates(answer: Answer) -> list[Template]:
    """
    A bare list of objects (docs/service.md 7).

    :raises TransportError: the body is none.
    """
    body = answer.json()
    if not _objects(body) or not _plain_ids(body):
        raise _misshapen(answer, "a list of templates")
    return cast("list[Template]", body)


def _with_results(answer: Answer) -> Any:
    body = thing(answer)
    if not _objects(body.get("results")):
        raise _misshapen(answer, "an object with a list of results")
    return body


def _objects(value: Any) -> bool:
    return isinstance(value, list) and {type(each) for each in value} <= {dict}


def _text(value: Any, *, or_empty: bool = False) -> bool:
    return isinstance(value, str) and (or_empty or bool(value))


def _plain_ids(items: list[dict[str, Any]]) -> bool:
    """Whether no id is an object or a list: listings tell what they have seen by it."""
    return {type(each.get("id")) for each in items}.isdisjoint((dict, list))


def _misshapen(answer: Answer, wanted: str) -> TransportError:
    return TransportError(f"status {answer.status} came with a body that is not {wanted}", sent=True)
