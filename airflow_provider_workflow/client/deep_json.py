"""
JSON that is nested deeper than the standard library decodes, which is about 1000 levels.

A dead letter may have such a payload. Nothing of it must be lost when it is replayed, so the decoded message
has a shortened ``payload``, and the whole of it, as a JSON string, in ``payload_json``.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from typing import Any

from airflow_provider_workflow.client.lenient_json import whole

DEEPEST = 300
"""Levels: more than Airflow can store, and fewer than Python can decode."""
_STRING_OR_BRACKET = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}:,]|[^\s"\[\]{}:,]+', re.DOTALL)
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")


def shortened(body: bytes) -> bytes:
    """The JSON body with null in place of values nested deeper than ``DEEPEST`` levels."""
    return _cut(body, lambda _: b"null")


def whole_payloads(body: bytes) -> dict[int, str]:
    """
    The payloads of a lease that ``shortened`` shortens, as ASCII JSON strings.

    :param body: a JSON object whose ``results`` is a list of messages.
    :return: by the position of the message, from 0.
    :raises ValueError: the body is not JSON.
    """
    mark, removed = uuid.uuid4().hex, []

    def marked(value: bytes) -> bytes:
        removed.append(value)
        return f'"{mark}{len(removed) - 1}"'.encode()

    messages = json.loads(_cut(body, marked), parse_int=whole)["results"]
    texts = enumerate(json.dumps(message.get("payload")) for message in messages)
    found = re.compile(f'"{mark}([0-9]+)"')
    return {
        position: found.sub(lambda each: _ascii(removed[int(each[1])]), text)
        for position, text in texts
        if mark in text
    }


def decode(text: str) -> Any:
    """
    The same as ``json.loads``, for any depth; several times slower, so only for what that cannot decode.

    :raises ValueError: the string is not JSON.
    """
    try:
        return json.loads(text, parse_int=whole)
    except RecursionError:
        return _without_recursion(text)


def _without_recursion(text: str) -> Any:
    items: list[Any] = []
    outer: list[list[Any]] = []
    for found in _TOKEN.finditer(text):
        sign = found.group()
        if sign in ("[", "{"):
            outer.append(items)
            items = []
        elif sign in ("]", "}"):
            closed: Any = items if sign == "]" else dict(zip(items[::2], items[1::2], strict=True))
            items = outer.pop() if outer else []
            items.append(closed)
        elif sign not in (":", ","):
            items.append(json.loads(sign, parse_int=whole))
    if outer or len(items) != 1:
        raise ValueError("The string is not JSON")
    return items[0]


def _cut(body: bytes, replaced: Callable[[bytes], bytes]) -> bytes:
    """The JSON body with ``replaced(value)`` in place of each value that is nested too deep."""
    kept: list[bytes] = []
    depth = done = start = 0
    for found in _STRING_OR_BRACKET.finditer(body):
        sign = found.group()
        if sign in (b"[", b"{"):
            depth += 1
            if depth == DEEPEST + 1:
                start = found.start()
                kept.append(body[done:start])
        elif sign in (b"]", b"}"):
            if depth == DEEPEST + 1:
                done = found.end()
                kept.append(replaced(body[start:done]))
            depth -= 1
    return b"".join((*kept, body[done:]))


def _ascii(value: bytes) -> str:
    return _BEYOND_ASCII.sub(lambda each: json.dumps(each[0])[1:-1], value.decode())


_STRING_OR_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|NaN|Infinity')
_NUMBERS = {"NaN": "null", "Infinity": "1e999"}


def dumped(value: Any, **options: Any) -> str:
    """
    ``json.dumps``, but always JSON: infinity is ``1e999``, which is read as infinity again.

    Python decodes 1e400 to infinity, and encodes that as a word that other languages reject.
    """
    try:
        return json.dumps(value, allow_nan=False, **options)
    except ValueError:
        text = json.dumps(value, **options)
    return _STRING_OR_WORD.sub(lambda match: _NUMBERS.get(match[0], match[0]), text)
