"""
Payloads that are JSON, and that some layer of Airflow, or its database, cannot store: PostgreSQL stores less.
"""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from airflow_provider_workflow.airflow_internals import reserved_keys
from airflow_provider_workflow.dispatch.payloads import payload_of
from tests.crash.poison import nested
from tests.e2e.stage import PATIENCE_SECONDS

pytestmark = pytest.mark.together
HARMLESS = {
    "Jinja": {"text": "{{ 1 // 0 }} {% raise %} {{ var.value.secret }}", "{{ ds }}": "key"},
    "64 bits": {"number": 2**63 - 1, "negative": -(2**63), "unsigned": 2**64 - 1},
    "deep": nested(100),
    "old serialization": {"__type": "dict", "__var": {"n": 1}},
    "new serialization": {"__classname__": "builtins.object", "__version__": 1, "__data__": "{}"},
    "reference": {"__id__": "1", "__ref__": "2", "__Classname__": "x"},
    "empty names": {"": {"": [None, True, 1.5e-300]}},
    "long": {"text": "x" * 300_000},
}
UNSTORABLE = {
    "a NUL": {"text": "before\0after"},
    "1e20": {"number": 1e20},
    "2**64": {"number": 2**64},
    "lone surrogate": {"text": "\ud800"},
    "lone surrogate in a name": {"\udfff": 1},
    "more than 64 bits": {"number": 2**70},
    "not a number": {"number": math.nan},
    "infinite": {"number": -math.inf},
    "a number that PostgreSQL changes": {"number": 1.5e300},
}
TOO_DEEP = "too deep"
SENT = HARMLESS | UNSTORABLE | {TOO_DEEP: nested(300)}
SERIALIZATION = {"old serialization", "new serialization", "reference"}
"""
Airflow's own keys: XCom raises for some of them, and silently unpacks others. Airflow 3.4 rejects them in a
conf.
"""
IN_CONF = SERIALIZATION if reserved_keys() else set()
"""Those that are strings in a conf."""


def put_when_armed(stage, inbox, run) -> dict[str, str]:
    """Put all of it while the task is deferred, so that it takes the way through the triggerer."""
    run.reaches("deferred")
    ids = inbox.put(*SENT.values())
    return dict(zip(SENT, ids, strict=True))


def is_unchanged(name: str, payload: Any) -> bool:
    """Whether a DAG got a payload as it was sent, or as its text if it is nested too deep."""
    if name == TOO_DEEP:
        payload = json.loads(payload)
    return as_text(payload) == as_text(SENT[name])


def as_text(payload: Any) -> str:
    """PostgreSQL orders the keys of an object in its own way, and NaN, which is no JSON, becomes null."""
    return json.dumps(payload, sort_keys=True).replace("NaN", "null")


@pytest.fixture(autouse=True)
def triggerer(stage):
    """Checks that the tests did not end any process of the triggerer."""
    before = stage.airflow.pids("triggerer")
    yield
    assert stage.airflow.pids("triggerer") == before
    assert stage.airflow.api.health()["triggerer"] == "healthy"


def test_hostile_messages_start_runs_that_get_them_unchanged(stage, inbox):
    target = "decorated"
    run = stage.start("listener_that_logs", inbox, target=target)
    ids = put_when_armed(stage, inbox, run)
    result = run.succeeds()
    assert result["started"]["count"] == len(ids)
    assert result["rejected"]["count"] == 0
    stage.wait_until_succeeded(inbox, list(ids.values()), target)
    for name in SENT:
        text = stage.airflow.api.xcom(target, inbox.run_id_of(ids[name]), "read_payload")
        returned_value = json.loads(text)
        assert returned_value["as_text"] == (name in UNSTORABLE or name in IN_CONF), name
        assert is_unchanged(name, returned_value["payload"]), name
    assert inbox.all_acknowledged()
    assert inbox.lease_counts == [1]


@pytest.mark.since(3, 3, "the task state store")
def test_hostile_messages_are_returned_unchanged(stage, inbox):
    run = stage.start("receiver_that_logs", inbox)
    ids = put_when_armed(stage, inbox, run)
    stage.airflow.api.wait_for_run(run.dag_id, run.run_id, PATIENCE_SECONDS)
    text = stage.airflow.api.xcom(run.dag_id, run.run_id, "read")
    messages = {message["id"]: message for message in json.loads(text)}
    assert messages.keys() == set(ids.values())
    for name in SENT:
        message = messages[ids[name]]
        assert is_unchanged(name, payload_of(message)), name
        assert ("payload_json" in message) == (name in SERIALIZATION or name in UNSTORABLE), name
    assert inbox.all_acknowledged()
