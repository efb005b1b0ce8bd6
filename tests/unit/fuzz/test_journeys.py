"""The journeys are Airflow's: they change, and refuse, what Airflow was seen to change and refuse."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.execution_time.comms import TriggerDagRun

from airflow_provider_workflow.airflow_internals import SERIALIZATION_KEYS, airflow_release
from tests.unit.fuzz import journeys
from tests.unit.fuzz.payloads import same


def conf(value: Any) -> Any:
    message = TriggerDagRun(dag_id="d", run_id="r", conf={"value": value})
    return journeys.to_a_run(message)["value"]


JOURNEYS = {
    "conf": conf,
    "xcom": journeys.through_xcom,
    "event": journeys.through_event,
    "asset event": journeys.through_asset_event,
}


@pytest.mark.parametrize("journey", JOURNEYS)
@pytest.mark.parametrize("value", ["\ud800", 2**70])
def test_what_airflow_cannot_encode_ends_a_journey(journey: str, value: Any) -> None:
    with pytest.raises((ValueError, OverflowError)):
        JOURNEYS[journey]({"v": value})


@pytest.mark.parametrize("journey", ["xcom", "event"])
@pytest.mark.parametrize("value", [{"__classname__": "no.such.Class"}, {"__type": "set", "__var": [1]}])
def test_marks_of_airflow_are_taken_for_its_own(journey: str, value: Any) -> None:
    try:
        arrived = JOURNEYS[journey]({"v": value})
    except Exception:
        return
    assert arrived != {"v": value}


@pytest.mark.skipif(airflow_release() >= (3, 4), reason="Airflow 3.4 rejects them")
def test_marks_are_nothing_special_in_a_conf() -> None:
    value = {"__classname__": "builtins.set", "__type": "dict", "__var": {"__id__": 1}, "__data__": []}
    assert conf(value) == value


@pytest.mark.since(3, 4, "the check of a conf")
@pytest.mark.parametrize("mark", sorted(SERIALIZATION_KEYS))
def test_marks_are_rejected_in_a_conf(mark: str) -> None:
    with pytest.raises(ValueError, match="reserved serialization keys"):
        conf({"a": [{mark: 1}]})


@pytest.mark.parametrize(
    ("one", "other"), [(1, True), ("1", 1), ([], {}), (None, False), ({"a": 1}, {"a": 1, "b": 1})]
)
def test_values_that_python_or_json_tells_apart_are_not_the_same(one: Any, other: Any) -> None:
    assert not same({"v": [one]}, {"v": [other]})


def test_the_same_number_is_the_same() -> None:
    assert same({"v": [1]}, {"v": [1.0]})
