"""
Payloads in a form that every supported Airflow and database can store.

A payload may be any JSON value, and Airflow cannot store every JSON value: an integer over 64 bits, ``1e20``,
a NUL character or a lone surrogate fails in its encoders or in its database, and Airflow 3.4 rejects the keys
of its own serialization. Such a payload is stored as an ASCII JSON string in ``payload_json`` instead, and
:func:`payload_of` returns it either way::

    from airflow_provider_workflow.dispatch.payloads import payload_of

    order = payload_of(dag_run.conf["message"])
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from airflow_provider_workflow.airflow_internals import reserved_keys
from airflow_provider_workflow.client import deep_json
from airflow_provider_workflow.client.wire import plain

if TYPE_CHECKING:
    from airflow_provider_workflow.types import Message, Payload

log = logging.getLogger(__name__)

DEEPEST = 147
"""Levels of a payload. Some Airflow versions accept a run whose conf has more than 150 levels, three of them
above the payload, and then cannot start any of its tasks."""
INTEGERS = (-(2**63), 2**64 - 1)
LARGEST_FLOAT = 2.0**64
"""PostgreSQL returns a larger one as an integer, which no task of the run can read."""
DEEPEST_CONF = DEEPEST + 3
LONGEST_PATH = 200
"""Characters of a path in a log line."""

_Trail = tuple[Any, "str | int"]
"""The steps from the root to a value, innermost first: ``(trail of the parent, key or index)``."""


class Unstorable(NamedTuple):
    """
    A part of a JSON value that Airflow cannot store.

    :param path: its path, such as ``payload.items[3].total``; never the value itself.
    :param reason: why it cannot be stored: the end of a sentence that begins with the path.
    """

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path} {self.reason}"


@overload
def payload_of(message: Message[Payload]) -> Payload: ...


@overload
def payload_of(message: Mapping[str, Any]) -> Any: ...


def payload_of(message: Mapping[str, Any] | Message[Any]) -> Any:
    """
    The payload of a message, exactly as the service sent it.

    :param message: ``dag_run.conf["message"]``, or a message that a sensor returned.
    """
    text = message.get("payload_json")
    return message.get("payload") if text is None else deep_json.decode(text)


def storable(message: Mapping[str, Any]) -> tuple[dict[str, Any], list[Unstorable]]:
    """
    A message in a form that Airflow can store.

    :param message: ``id``, ``created_at``, ``payload``, ``message_attributes``.
    :return: the message, and the parts that were replaced. A payload that cannot be stored is None, with its
        JSON string in ``payload_json``; an id is escaped; other fields are None.
    """
    result, found = dict(message), []
    for name, value in message.items():
        if (part := unstorable(value, name)) is not None:
            found.append(part)
            result[name] = plain(value) if name == "id" and isinstance(value, str) else None
            if name == "payload":
                result["payload_json"] = payload_text(message)
    return result, found


def payload_text(message: Mapping[str, Any]) -> str:
    """The whole payload of a message as an ASCII JSON string."""
    text: str | None = message.get("payload_json")
    return json.dumps(message.get("payload")) if text is None else text


def log_replaced(inbox: str, message_id: str, replaced: list[Unstorable]) -> None:
    """Log the parts of a message that were replaced."""
    for part in replaced:
        log.warning(
            "Inbox %s: message %s has a value that Airflow cannot store: %s. If the value is the payload,"
            " payload_of() of airflow_provider_workflow.dispatch.payloads returns it",
            inbox,
            plain(message_id),
            part,
        )


def unstorable(value: Any, name: str = "value", deepest: int = DEEPEST) -> Unstorable | None:
    """
    The first part of a JSON value that Airflow cannot store; None if it can store the whole value.

    Without recursion, as the depth itself may be the problem.

    :param name: name of the value at the beginning of the path.
    :param deepest: levels that the value may have.
    """
    reserved = reserved_keys()
    waiting: list[tuple[Any, int, _Trail | None]] = [(value, 1, None)]
    while waiting:
        item, depth, trail = waiting.pop()
        if depth > deepest:
            return Unstorable(name, f"is nested deeper than {deepest} levels")
        if isinstance(item, dict):
            for key, part in item.items():
                if (reason := _of_key(key, reserved)) is not None:
                    return Unstorable(_path(name, (trail, key)), f"has a key that {reason}")
                waiting.append((part, depth + 1, (trail, key)))
        elif isinstance(item, list):
            waiting += ((part, depth + 1, (trail, index)) for index, part in enumerate(item))
        elif (reason := _of_scalar(item)) is not None:
            return Unstorable(_path(name, trail), reason)
    return None


def _of_key(key: str, reserved: frozenset[str]) -> str | None:
    return "Airflow reserves for its serialization" if key in reserved else _of_scalar(key)


def _of_scalar(item: Any) -> str | None:
    if isinstance(item, str):
        if "\0" in item:
            return "has a NUL character"
        try:
            item.encode()
        except UnicodeEncodeError:
            return "has a lone surrogate"
    elif isinstance(item, float):
        if not math.isfinite(item):
            return "is not a finite number"
        if abs(item) >= LARGEST_FLOAT:
            return "is a number of 2**64 or more"
    elif isinstance(item, int) and not INTEGERS[0] <= item <= INTEGERS[1]:
        return "is an integer of more than 64 bits"
    return None


def _path(name: str, trail: _Trail | None) -> str:
    steps: list[str] = []
    while trail is not None:
        trail, step = trail
        steps.append(f"[{step}]" if isinstance(step, int) else f".{plain(step, 50)}")
    return plain(name + "".join(reversed(steps)), LONGEST_PATH)
