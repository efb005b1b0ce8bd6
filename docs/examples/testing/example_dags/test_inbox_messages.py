"""A sensor that returns messages: dag.test() runs its trigger, and passes them to the next task."""

import logging

import airflow
import pytest

if airflow.__version__.startswith("3.2."):
    pytest.skip("the sensor returns messages from Airflow 3.3 on", allow_module_level=True)

from inbox_messages import collect_readings


def test_readings_are_collected_and_acknowledged(workflow_emulator, caplog):
    caplog.set_level(logging.INFO)
    ids = workflow_emulator.put("readings", {"value": 20}, {"value": 22})

    run = collect_readings().test()

    assert run.state == "success"
    assert f"Reading {ids[0]}: {{'value': 20}}" in caplog.text
    assert f"Reading {ids[1]}: {{'value': 22}}" in caplog.text
    workflow_emulator.assert_acknowledged("readings", ids)
