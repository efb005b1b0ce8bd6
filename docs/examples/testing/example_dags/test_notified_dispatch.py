"""The DAG that a notification starts hands each message to one run of its target."""

import logging

from airflow.models import DagRun
from notified_dispatch import dispatch_shipments, handle_shipment


def test_a_shipment_starts_one_run(workflow_emulator):
    (shipment,) = workflow_emulator.put("shipments", {"number": 1})

    run = dispatch_shipments().test()

    assert run.state == "success"
    (started,) = [each for each in DagRun.find(dag_id="handle_shipment") if shipment in each.run_id]
    assert started.conf["message"]["payload"] == {"number": 1}
    workflow_emulator.assert_acknowledged("shipments", [shipment])


def test_a_shipment_is_handled(workflow_emulator, caplog):
    caplog.set_level(logging.INFO)

    run = handle_shipment().test(run_conf={"message": {"id": "a", "payload": {"number": 1}}})

    assert run.state == "success"
    assert "Shipment a: {'number': 1}" in caplog.text
