"""A task that acknowledges batches by itself; without retries, a failed message is seen at once."""

import logging

from inbox_batches import store_measurements


def test_measurements_are_stored(workflow_emulator, caplog):
    caplog.set_level(logging.INFO)
    ids = workflow_emulator.put("measurements", {"value": 1}, {"value": 2})

    run = store_measurements().test()

    assert run.get_task_instance("store").xcom_pull(task_ids="store")["processed"]["ids"] == ids
    assert f"Measurement {ids[1]}: {{'value': 2}}" in caplog.text
    workflow_emulator.assert_acknowledged("measurements", ids)


def test_a_measurement_without_a_value_is_redelivered(workflow_emulator):
    good, bad = workflow_emulator.put("measurements", {"value": 1}, {"note": "no value"})
    dag = store_measurements()
    dag.get_task("store").retries = 0

    run = dag.test()

    assert run.state == "failed"
    assert workflow_emulator.statuses("measurements") == {good: "acked", bad: "leased"}
