"""
How an answer's body becomes a value.

Only the shape that callers walk through is checked: a body of another shape is no answer of the
service (a proxy's page, a version that is not this one). Everything inside passes through untouched.
"""

from __future__ import annotations

from typing import Any, cast

from airflow_provider_workflow.client.errors import TransportError
from airflow_provider_workflow.client.types import Template
from airflow_provider_workflow.client.wire import Answer


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
