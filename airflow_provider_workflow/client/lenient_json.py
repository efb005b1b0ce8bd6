"""
JSON of a lease in which one message has a defect: the others are decoded as if it had none.

Bytes that are not UTF-8 become lone surrogates, from which ``text.encode("utf-8", "surrogateescape")`` makes
the same bytes again. A payload that is not JSON, or nested deeper than Python decodes, becomes a string: its
text.
"""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

LEVELS = 3
"""Levels of a lease above a payload: the lease, its list of messages, the message."""
_BLANKS = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_STRING_OR_BRACKET = re.compile(_STRING.pattern + r"|[\[\]{}]", re.DOTALL)
_BARE = re.compile(r'[^,\[\]{}"]*')
_CLOSING = {"{": "}", "[": "]"}


def whole(digits: str) -> int | float:
    """
    A whole number of a body; infinity if it has more digits than Python converts.

    One such number must not make the other messages of a lease unreadable.
    """
    try:
        return int(digits)
    except ValueError:
        return float(digits)


_DECODER = json.JSONDecoder(parse_int=whole, strict=False)


def decode(body: bytes) -> dict[str, Any]:
    """
    The value of a JSON object, with the text of a value in place of each that cannot be decoded.

    :raises ValueError: the body is not an object, or not complete.
    """
    text = body.decode(json.detect_encoding(body), "surrogateescape")
    value, end = _value(text, _skip(text, 0), LEVELS)
    if not isinstance(value, dict) or end != len(text):
        raise ValueError("The body is not one object")
    return value


def _skip(text: str, start: int) -> int:
    """The position of the next character that is not blank."""
    blanks = _BLANKS.match(text, start)
    return blanks.end() if blanks else start


def _value(text: str, start: int, levels: int) -> tuple[Any, int]:
    """The value that begins at a position, and the position after it and the blanks behind it."""
    for decoded in (_DECODER.raw_decode, partial(_items, levels=levels), _text):
        try:
            value, end = decoded(text, start)
        except (ValueError, RecursionError):
            continue
        return value, _skip(text, end)
    raise ValueError("A value does not end")


def _items(text: str, start: int, levels: int) -> tuple[Any, int]:
    """The object or list that begins at a position, each of its values decoded by itself."""
    closing = _CLOSING.get(text[start : start + 1])
    if not (closing and levels):
        raise ValueError("The value has no parts that are decoded by themselves")
    names: list[Any] = []
    values: list[Any] = []
    sign, position = ",", start
    while sign == ",":
        position = _skip(text, position + 1)
        if closing == "}":
            name, end = _DECODER.raw_decode(text, position)
            colon = _skip(text, end)
            if not isinstance(name, str) or not text.startswith(":", colon):
                raise ValueError("A member has no name")
            names.append(name)
            position = _skip(text, colon + 1)
        value, position = _value(text, position, levels - 1)
        values.append(value)
        sign = text[position : position + 1]
    if sign != closing:
        raise ValueError("A value does not end")
    return (dict(zip(names, values, strict=True)) if closing == "}" else values), position + 1


def _text(text: str, start: int) -> tuple[str, int]:
    """The text of a value, which its quotes or brackets end."""
    depth = 0
    match = _STRING.match(text, start) or _BARE.match(text, start)
    if text[start : start + 1] in _CLOSING:
        for match in _STRING_OR_BRACKET.finditer(text, start):
            depth += (match.group() in _CLOSING) - (match.group() in ("}", "]"))
            if depth == 0:
                break
    if match is None or depth:
        raise ValueError("A value does not end")
    return text[start : match.end()].rstrip(), match.end()
