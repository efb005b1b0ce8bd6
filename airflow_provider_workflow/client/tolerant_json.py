"""
JSON that the standard library does not decode or encode as this provider needs it: with a number of thousands
of digits, or as a lease in which one message has a defect.
"""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress
from functools import partial
from io import StringIO
from typing import Any

LEVELS = 3
"""Levels of a lease above a payload: the lease, its list of messages, the message."""
MAX_PAYLOAD_LEVELS = 147
"""Some Airflow versions accept a run whose conf has more than 150 levels, three of them above the payload,
and then cannot start any of its tasks."""
_BLANKS = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
"""Possessive, so that it needs no memory for each character."""
_STRING_OR_BRACKET = re.compile(_STRING.pattern + r'|["\[\]{}]', re.DOTALL)
"""A quote alone begins a string without an end."""
_BARE = re.compile(r'[^,\[\]{}"]*')
_CLOSING = {"{": "}", "[": "]"}
_STRING_OR_WORD = re.compile(_STRING.pattern + "|NaN|Infinity")
_NUMBERS = {"NaN": "null", "Infinity": "1e999"}


def whole(digits: str) -> int | float:
    """
    A whole number of a body; infinity if it has more digits than Python converts.

    One such number must not make the other messages of a lease unreadable.
    """
    try:
        return int(digits)
    except ValueError:
        return float(digits)


# ``json.loads`` would create one for each message.
_PLAIN_DECODER = json.JSONDecoder(parse_int=whole)
# Other threads only run while the decoder calls a hook.
_DECODER = json.JSONDecoder(parse_int=whole, strict=False, object_hook=lambda value: value)


def decode(text: str) -> Any:
    """
    The same as ``json.loads``, but a whole number of thousands of digits is infinity.

    :raises ValueError: the string is not JSON, or nested deeper than Python decodes.
    """
    try:
        return _PLAIN_DECODER.decode(text)
    except RecursionError:
        raise ValueError("The string is nested too deep") from None


def is_deeper(value: Any, levels: int) -> bool:
    """Whether a JSON value is nested deeper than a number of levels."""
    containers = [value] if isinstance(value, (dict, list)) else []
    for _ in range(levels):
        if not containers:
            return False
        containers = [
            part
            for container in containers
            for part in (container.values() if isinstance(container, dict) else container)
            if isinstance(part, (dict, list))
        ]
    return bool(containers)


def dumped(value: Any, **options: Any) -> str:
    """
    The same as ``json.dumps``, but always JSON: infinity is ``1e999``.

    Python decodes 1e400 to infinity, and encodes that as a word that other languages reject.
    """
    text = json.dumps(value, **options)
    if not any(word in text for word in _NUMBERS):
        return text
    return _STRING_OR_WORD.sub(lambda match: _NUMBERS.get(match[0], match[0]), text)


def encoded(value: Any, longest: float = math.inf) -> str:
    """
    A value as ASCII JSON, written in small steps, so that a thread that writes it lets others run.

    ``json.dumps`` does not, and takes 20 ms or more for 1 MB.

    :param longest: maximum number of characters.
    :raises ValueError: it is longer.
    """
    text = StringIO()
    for part in json.JSONEncoder().iterencode(value):
        if text.tell() + len(part) > longest:
            raise ValueError("it is too long")
        text.write(part)
    return text.getvalue()


def with_whole_numbers(value: Any) -> Any:
    """
    A copy of a JSON value in which 7.0 is 7, at every depth.

    Services, languages and databases write the same number in both ways.
    """
    root = [value]
    unvisited: list[Any] = [root]
    while unvisited:
        container = unvisited.pop()
        members = container.items() if isinstance(container, dict) else enumerate(container)
        for place, item in list(members):
            if isinstance(item, (dict, list)):
                container[place] = item.copy()
                unvisited.append(container[place])
            elif isinstance(item, float) and item.is_integer():
                container[place] = int(item)
    return root[0]


def decode_lease(body: bytes) -> dict[str, Any]:
    """
    The value of a lease, with the text of a value in place of each that cannot be decoded.

    That is a payload that is not JSON, or is nested deeper than ``MAX_PAYLOAD_LEVELS``. Bytes that are not
    UTF-8 become lone surrogates.

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
    """The value at a position, and the position of what follows it."""
    for decoded in (partial(_items, levels=levels), _shallow, _text):
        with suppress(ValueError, RecursionError):
            value, end = decoded(text, start)
            return value, _skip(text, end)
    raise ValueError("A value does not end")


def _items(text: str, start: int, levels: int) -> tuple[Any, int]:
    """The object or list at a position, each of its values decoded by itself."""
    closing = _CLOSING.get(text[start : start + 1])
    if not (closing and levels) or text.startswith(closing, _skip(text, start + 1)):
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


def _shallow(text: str, start: int) -> tuple[Any, int]:
    """The value at a position, which has a depth that Airflow stores."""
    value, end = _DECODER.raw_decode(text, start)
    if is_deeper(value, MAX_PAYLOAD_LEVELS):
        raise ValueError("The value is nested too deep")
    return value, end


def _text(text: str, start: int) -> tuple[str, int]:
    """The text of a value, which its quotes or brackets end."""
    depth = 0
    match = _STRING.match(text, start) or _BARE.match(text, start)
    if text[start : start + 1] in _CLOSING:
        for match in _STRING_OR_BRACKET.finditer(text, start):
            depth += (match.group() in _CLOSING) - (match.group() in ("}", "]"))
            if depth == 0 or match.group() == '"':  # no later match could be the end
                break
    if match is None or depth:
        raise ValueError("A value does not end")
    return text[start : match.end()].rstrip(), match.end()
