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
from airflow_provider_workflow.client.types import Template
from airflow_provider_workflow.client.wire import Answer

DEEPEST = 300
"""Levels: more than Airflow holds, and fewer than Python decodes."""
_STRING_OR_BRACKET = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


def nothing(_: Answer) -> None:
    return None


def thing(answer: Answer) -> Any:
    """
    An object.

    :raises TransportError: the body is none.
    """
    body = answer.json()
    if not isinstance(body, dict):
        raise _misshapen(answer, "an object")
    return body


def page(answer: Answer) -> Any:
    """
    An object whose ``results`` is a list of objects: a page of a listing, or a lease.

    :raises TransportError: the body is none.
    """
    body = thing(answer)
    if not _objects(body.get("results")):
        raise _misshapen(answer, "an object with a list of results")
    return body


def lease(answer: Answer) -> Any:
    """
    A lease. One payload that is nested too deep to be decoded must not hide the other messages, which
    would be leased with it again and again until the service quarantines them all: such a payload is
    cut at a depth at which no Airflow holds it, so whoever starts runs refuses that message alone.

    :raises TransportError: the body is none.
    """
    try:
        return page(answer)
    except TransportError:
        shallow = _cut(answer.body)
        if shallow == answer.body:
            raise
        return page(replace(answer, body=shallow))


def _cut(body: bytes) -> bytes:
    """A JSON text in which null stands for whatever is nested deeper than ``DEEPEST`` levels."""
    kept: list[bytes] = []
    depth = done = 0
    for found in _STRING_OR_BRACKET.finditer(body):
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
    A bare list of objects (service facts 7).

    :raises TransportError: the body is none.
    """
    body = answer.json()
    if not _objects(body):
        raise _misshapen(answer, "a list of objects")
    return cast("list[Template]", body)


def _objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def _misshapen(answer: Answer, wanted: str) -> TransportError:
    return TransportError(f"status {answer.status} came with a body that is not {wanted}", sent=True)
