"""A listener starts runs that dag.test() does not execute: each DAG has a test of its own."""

import logging

from airflow.models import DagRun
from inbox_listener import handle_order, order_listener


def test_an_order_starts_one_run_with_its_message(workflow_emulator):
    (order,) = workflow_emulator.put("orders", {"number": 1})

    run = order_listener().test()

    assert run.state == "success"
    (conf,) = [each.conf or {} for each in DagRun.find(dag_id="handle_order") if order in each.run_id]
    assert conf["message"]["payload"] == {"number": 1}
    workflow_emulator.assert_acknowledged("orders", [order])


def test_an_order_is_handled(workflow_emulator, caplog):
    caplog.set_level(logging.INFO)

    run = handle_order().test(run_conf={"message": {"id": "a", "payload": {"number": 1}}})

    assert run.state == "success"
    assert "Order a: {'number': 1}" in caplog.text
