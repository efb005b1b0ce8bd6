"""
Messages that the target DAGs reject, that have no key, or that end the process which works on them in
batches, with payloads that some layer of Airflow cannot store either.
"""

from __future__ import annotations

import uuid
from typing import Any

EVERY = 10
"""One message of so many is rejected."""
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


def message_of(number: int) -> tuple[str, Any]:
    """Id and payload of the message with this number of a recipe; three of ten repeat the key of another."""
    if number % EVERY != EVERY // 2:
        return str(uuid.uuid4()), {"number": number, "key": number * 7 // 10}
    return f"{PREFIX}{uuid.uuid4()}", PAYLOADS[number // EVERY % len(PAYLOADS)]
