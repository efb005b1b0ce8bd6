"""JSON at any depth; the standard library decodes and encodes about 1000 levels."""

from __future__ import annotations

import json
import re
from typing import Any

from airflow_provider_workflow.client.lenient_json import whole

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}:,]|[^\s"\[\]{}:,]+', re.DOTALL)
_STRING_OR_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|NaN|Infinity')
_NUMBERS = {"NaN": "null", "Infinity": "1e999"}


def decode(text: str) -> Any:
    """
    The same as ``json.loads``, for any depth; several times slower for what that cannot decode.

    :raises ValueError: the string is not JSON.
    """
    try:
        return json.loads(text, parse_int=whole)
    except RecursionError:
        return _decoded(text)


def _decoded(text: str) -> Any:
    items: list[Any] = []
    outer: list[list[Any]] = []
    for token in _TOKEN.finditer(text):
        sign = token.group()
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


def dumped(value: Any, **options: Any) -> str:
    """
    The same as ``json.dumps``, for any depth, and always JSON: infinity is ``1e999``.

    Python decodes 1e400 to infinity, and encodes that as a word that other languages reject.
    """
    try:
        return json.dumps(value, allow_nan=False, **options)
    except ValueError:
        text = json.dumps(value, **options)
        return _STRING_OR_WORD.sub(lambda match: _NUMBERS.get(match[0], match[0]), text)
    except RecursionError:
        return _encoded(value)


def _encoded(value: Any) -> str:
    written: list[str] = []
    unwritten: list[Any] = [value]
    while unwritten:
        item = unwritten.pop()
        if isinstance(item, _Written):
            written.append(item)
        elif isinstance(item, dict) and item:
            members = [part for key in item for part in (_Written(f", {dumped(key)}: "), item[key])]
            unwritten += [_Written("}"), *reversed(members[1:]), _Written("{" + members[0][2:])]
        elif isinstance(item, list) and item:
            entries = [part for entry in item for part in (_Written(", "), entry)]
            unwritten += [_Written("]"), *reversed(entries[1:]), _Written("[")]
        else:
            written.append(dumped(item))
    return "".join(written)


class _Written(str):
    """A piece of JSON, to be told from a string that is a value."""

    __slots__ = ()
