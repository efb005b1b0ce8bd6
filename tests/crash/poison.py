"""
Messages that the target DAGs reject, that have no key, or that end the process which works on them in
batches, with payloads that some layer of Airflow cannot store either.
"""

from __future__ import annotations

import os
import uuid
from typing import Any

EVERY = 10
"""One message of so many is rejected."""
KILLS = "kills"
"""The key of a payload that ends the process that checks it."""
MARKER = "this-is-the-name-of-a-customer/"
PREFIX = "poison-"
"""The target DAGs reject messages whose ids begin so."""


def nested(levels: int) -> Any:
    """Objects in each other."""
    value: Any = "bottom"
    for _ in range(levels):
        value = {"in": value}
    return value


PAYLOADS: tuple[Any, ...] = (
    {"text": "before\0after"},
    {"text": "\ud800", "\udfff": 1},
    {"number": 2**70, "less": -(2**70)},
    {"number": 1.5e300},
    nested(300),
    [[[None, True, {}]]],
    {"__type": "dict", "__var": {"__classname__": "builtins.object", "__version__": 1, "__data__": "{}"}},
    {"text": "{{ 1 // 0 }} {% raise %}", "{{ ds }}": "key"},
    {"text": "x" * 300_000},
    "",
)


KILLERS_EVERY = 25
"""With killers one message of so many ends the process that checks it."""


def text_of(length: int) -> str:
    """A text of so many characters, in which ``MARKER`` is looked for."""
    return (MARKER * (length // len(MARKER) + 1))[:length]


def message_of(number: int, size: int = 0, text_bytes: int = 0, *, kills: bool = False) -> tuple[str, Any]:
    """
    Id and payload of the message with this number of a recipe; three of ten repeat the key of another.

    :param size: bytes of small values that it has more, about.
    :param text_bytes: length of a text that it has more.
    :param kills: whether one of 25 ends the process that checks its payload.
    """
    if kills and number % KILLERS_EVERY == KILLERS_EVERY // 2:
        return str(uuid.uuid4()), {"number": number, "key": f"killer {number}", KILLS: True}
    if number % EVERY != EVERY // 2:
        payload: dict[str, Any] = {"number": number, "key": number * 7 // 10}
        if size:
            # Small values take the most memory for their text.
            payload["values"] = [{"n": value} for value in range(size // 13)]
        if text_bytes:
            payload["text"] = text_of(text_bytes)
        return str(uuid.uuid4()), payload
    return f"{PREFIX}{uuid.uuid4()}", PAYLOADS[number // EVERY % len(PAYLOADS)]


def survive(payload: Any) -> Any:
    """Check a payload, as a validator that crashes does: some end the process."""
    if isinstance(payload, dict) and KILLS in payload:
        os._exit(9)
    return payload
