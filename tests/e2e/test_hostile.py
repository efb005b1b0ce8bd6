"""Payloads that are JSON, and that some layer of Airflow cannot hold."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest


def nested(depth: int) -> Any:
    value: Any = "bottom"
    for _ in range(depth):
        value = {"in": value}
    return value


HARMLESS = {
    "NUL": {"text": "before\0after"},
    "Jinja": {"text": "{{ 1 // 0 }} {% raise %} {{ var.value.secret }}", "{{ ds }}": "key"},
    "64 bits": {"number": 2**63 - 1, "negative": -(2**63), "unsigned": 2**64 - 1},
    "deep": nested(100),
    "old serialisation": {"__type": "dict", "__var": {"n": 1}},
    "new serialisation": {"__classname__": "builtins.object", "__version__": 1, "__data__": "{}"},
    "reference": {"__id__": "1", "__ref__": "2", "__Classname__": "x"},
    "empty names": {"": {"": [None, True, 1.5e-300]}},
    "long": {"text": "x" * 300_000},
}
IMPOSSIBLE = {
    "lone surrogate": {"text": "\ud800"},
    "lone surrogate in a name": {"\udfff": 1},
    "more than 64 bits": {"number": 2**70},
    "too deep": nested(300),
    "not a number": {"number": math.nan},
    "infinite": {"number": -math.inf},
    "a number that PostgreSQL changes": {"number": 1.5e300},
}
XCOM_REFUSES = {"old serialisation", "new serialisation", "reference"}
"""Airflow's own keys: XCom raises for some of them, and silently unpacks others."""


def put_when_armed(stage, inbox, run) -> dict[str, str]:
    """Put all of it while the task is deferred, so that it takes the way through the triggerer."""
    run.reaches("deferred")
    names = list(HARMLESS | IMPOSSIBLE)
    ids = inbox.put(*(HARMLESS | IMPOSSIBLE).values())
    return dict(zip(names, ids, strict=True))


@pytest.fixture
def triggerer(stage):
    """Checks that the test did not end any process of the triggerer."""
    before = stage.airflow.pids("triggerer")
    yield
    assert stage.airflow.pids("triggerer") == before
    assert stage.airflow.api.health()["triggerer"] == "healthy"


def test_hostile_messages_start_runs_that_get_them_unchanged(stage, inbox, triggerer):
    run = stage.start("listener_that_logs", inbox, target="echo")
    ids = put_when_armed(stage, inbox, run)
    result = run.succeeds()
    assert {name for name, id in ids.items() if id in result["refused"]["ids"]} == set(IMPOSSIBLE)
    stage.wait_until_succeeded(inbox, [ids[name] for name in HARMLESS], "echo")
    for name, payload in HARMLESS.items():
        seen = json.loads(stage.airflow.api.xcom("echo", f"workflow__{ids[name]}", "echo"))
        assert seen["message"]["payload"] == payload, name
    for name in IMPOSSIBLE:
        assert inbox.messages[ids[name]]["status"] == "leased"
        assert f"message {ids[name]} was refused" in run.log()


@pytest.mark.since(3, 3, "the task state store")
def test_hostile_messages_are_returned_unchanged(stage, inbox, triggerer):
    run = stage.start("receiver_that_logs", inbox)
    ids = put_when_armed(stage, inbox, run)
    stage.airflow.api.wait_for_run(run.dag_id, run.run_id)
    text = stage.airflow.api.xcom(run.dag_id, run.run_id, "read")
    got = {message["id"]: message["payload"] for message in json.loads(text)}
    expected = {ids[name]: payload for name, payload in HARMLESS.items() if name not in XCOM_REFUSES}
    assert got == expected
    for name, message_id in ids.items():
        refused = name in XCOM_REFUSES or name in IMPOSSIBLE
        assert inbox.messages[message_id]["status"] == ("leased" if refused else "acked"), name
