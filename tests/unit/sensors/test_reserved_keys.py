"""A sensor that returns messages never lets a payload import modules or build objects."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from airflow_provider_workflow.airflow_internals import SERIALIZATION_KEYS
from airflow_provider_workflow.dispatch.payloads import payload_of
from tests.unit.sensors.tasks import Task
from tests.unit.workbench import Workbench

UNUSED_MODULE = "airflow.example_dags.plugins.event_listener"
"""A module of Airflow's that can be imported anywhere."""
MODES = [pytest.param("auto", marks=pytest.mark.since(3, 3, "the task state store")), "manual"]


def received(bench: Workbench, acknowledge: str, payload: Any) -> dict[str, Any]:
    """The message as a sensor returns it."""
    bench.service.put("orders", payload)
    value: Any = Task(bench, trigger_dag_id=None, acknowledge=acknowledge).execute()
    [message] = value["messages"] if acknowledge == "manual" else value
    return dict(message)


def deserializations(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is deserialized from now on."""
    from airflow.sdk import serde
    from airflow.sdk.bases.xcom import BaseXCom

    seen: list[Any] = []
    monkeypatch.setattr(serde, "deserialize", seen.append)
    monkeypatch.setattr(BaseXCom, "deserialize_value", seen.append)
    return seen


@pytest.mark.parametrize("acknowledge", MODES)
@pytest.mark.parametrize("key", sorted(SERIALIZATION_KEYS))
def test_a_payload_with_a_key_of_airflows_serialization_is_text_and_is_not_deserialized(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, key: str, acknowledge: str
) -> None:
    seen, payload = deserializations(monkeypatch), {"items": [{"n": 1}, {"deep": {key: "x"}}]}
    message = received(bench, acknowledge, payload)

    assert message["payload"] is None
    assert payload_of(message) == payload
    assert seen == []


@pytest.mark.parametrize("acknowledge", MODES)
@pytest.mark.parametrize(
    "payload",
    [
        {"__type": f"{UNUSED_MODULE}.Anything", "__var": {}},
        {"__classname__": f"{UNUSED_MODULE}.Anything", "__version__": 1, "__data__": {}},
    ],
)
def test_a_payload_that_names_a_class_imports_nothing(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, payload: dict[str, Any], acknowledge: str
) -> None:
    monkeypatch.delitem(sys.modules, UNUSED_MODULE, raising=False)
    message = received(bench, acknowledge, payload)

    assert UNUSED_MODULE not in sys.modules
    assert payload_of(message) == payload


@pytest.mark.parametrize("acknowledge", MODES)
def test_a_payload_that_names_a_class_builds_no_object(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, acknowledge: str
) -> None:
    from airflow.sdk import Asset

    built: list[Any] = []
    monkeypatch.setattr(Asset, "__init__", lambda self, *given, **named: built.append((given, named)))
    payload = {"__type": "airflow.sdk.definitions.asset.Asset", "__var": {"name": "a", "uri": "s3://a"}}
    received(bench, acknowledge, payload)

    assert built == []
