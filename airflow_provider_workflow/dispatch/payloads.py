"""
Payloads in a form that every supported Airflow and database can store.

Airflow cannot store every JSON value: an integer over 64 bits, ``1e20``, a NUL character, a lone surrogate,
or a key of its own serialization. Such a payload is stored as an ASCII JSON string in ``payload_json``
instead, and :func:`payload_of` returns it either way::

    from airflow_provider_workflow.dispatch.payloads import payload_of

    order = payload_of(dag_run.conf["message"])
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, overload

from airflow_provider_workflow.airflow_internals import SERIALIZATION_KEYS, reserved_keys
from airflow_provider_workflow.client import tolerant_json
from airflow_provider_workflow.client.tolerant_json import MAX_PAYLOAD_LEVELS
from airflow_provider_workflow.text import escaped

if TYPE_CHECKING:
    from airflow_provider_workflow.types import Message, Payload

log = logging.getLogger(__name__)

INTEGER_RANGE = (-(2**63), 2**64 - 1)
"""The smallest and the largest integer that every supported Airflow can store."""
MAX_FLOAT = 2.0**64
"""
The magnitude of floats is below it. PostgreSQL returns a larger one as an integer, which no task of the run
can read.
"""


@overload
def payload_of(message: Message[Payload]) -> Payload: ...


@overload
def payload_of(message: Mapping[str, Any]) -> Any: ...


def payload_of(message: Mapping[str, Any] | Message[Any]) -> Any:
    """
    The payload of a message, exactly as the service sent it.

    :param message: ``dag_run.conf["message"]``, or a message that a sensor returned.
    :raises PayloadStoreError: it is in the payload store, and cannot be read.
    """
    if message.get("payload_object") is not None:
        from airflow_provider_workflow.dispatch import payload_store

        return payload_store.payload_of(message)
    text = message.get("payload_json")
    return message.get("payload") if text is None else tolerant_json.decode(text)


def storable(message: Mapping[str, Any], *, inbox: str = "", in_xcom: bool = False) -> dict[str, Any]:
    """
    A message in a form that Airflow can store.

    A payload that cannot be stored becomes None, with its JSON string in ``payload_json``; an id is escaped;
    other fields become None. Each replacement is logged, without the value.

    :param message: ``id``, ``created_at``, ``payload``, ``message_attributes``.
    :param inbox: id or name, for the log line.
    :param in_xcom: whether the message becomes an XCom; otherwise it becomes a part of a conf.
    """
    reserved = SERIALIZATION_KEYS if in_xcom else reserved_keys()
    result = dict(message)
    for name, value in message.items():
        problem = why_unstorable(value, name, reserved)
        if problem is None:
            continue
        if name == "payload":
            result[name], result["payload_json"] = None, tolerant_json.dumped(value)
            replacement = f"a JSON string, which payload_of() of {__name__} decodes"
        elif name == "id" and isinstance(value, str):
            result[name], replacement = escaped(value, len(value)), "an id with escaped characters"
        else:
            result[name], replacement = None, "None"
        log.warning(
            "Inbox %s: message %s has a value that Airflow cannot store: %s. It is stored as %s",
            inbox,
            escaped(str(message["id"])),
            problem,
            replacement,
        )
    return result


def why_unstorable(value: Any, name: str, reserved: frozenset[str] | None = None) -> str | None:
    """
    Why Airflow cannot store a JSON value, as a sentence that quotes no part of it; None if Airflow can.

    :param name: what the sentence calls the value.
    :param reserved: keys that the value must not contain at any depth; those of a conf by default.
    """
    reserved = reserved_keys() if reserved is None else reserved
    # Without recursion, because a payload may be nested deeper than Python's stack.
    outer: list[Iterator[Any]] = [iter([value])]
    while outer:
        if len(outer) > MAX_PAYLOAD_LEVELS:
            return f"{name} is nested deeper than {MAX_PAYLOAD_LEVELS} levels"
        for item in outer[-1]:
            if isinstance(item, dict) and not reserved.isdisjoint(item):
                return f"{name} has a key that Airflow reserves for its serialization"
            if item and isinstance(item, (dict, list)):
                values = item.values() if isinstance(item, dict) else ()
                outer.append(chain(item, values))
                break
            if (reason := _why_unstorable_scalar(item)) is not None:
                return f"{name} is or contains {reason}"
        else:
            outer.pop()
    return None


def _why_unstorable_scalar(item: Any) -> str | None:
    """What a string or a number is or contains that Airflow cannot store; None if Airflow can."""
    if isinstance(item, str):
        if "\0" in item:
            return "a NUL character"
        try:
            item.encode()
        except UnicodeEncodeError:
            return "a lone surrogate"
    elif isinstance(item, float):
        if not math.isfinite(item):
            return "a number that is not finite"
        if abs(item) >= MAX_FLOAT:
            return "a number of 2**64 or more in magnitude"
    elif isinstance(item, int) and not INTEGER_RANGE[0] <= item <= INTEGER_RANGE[1]:
        return "an integer of more than 64 bits"
    return None
