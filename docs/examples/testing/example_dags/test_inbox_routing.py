"""The runs of all targets show which DAG each message started."""

import logging

from airflow.models import DagRun
from inbox_routing import event_router, on_message

ROUTES = [
    ({"type": "refund"}, "on_refund"),
    ({"type": "payment", "amount": 1000}, "on_large_payment"),
    ({"type": "payment", "amount": 999}, "on_event"),
    ({"type": "login"}, "on_event"),
]


def test_each_event_starts_a_run_of_the_dag_that_it_is_for(workflow_emulator):
    ids = workflow_emulator.put("events", *(payload for payload, _ in ROUTES))

    run = event_router().test()

    assert run.state == "success"
    runs = DagRun.find(dag_id=["on_refund", "on_large_payment", "on_event"])
    started = [[each.dag_id for each in runs if message_id in each.run_id] for message_id in ids]
    assert started == [[dag_id] for _, dag_id in ROUTES]
    workflow_emulator.assert_acknowledged("events", ids)


def test_an_event_is_handled(workflow_emulator, caplog):
    caplog.set_level(logging.INFO)

    # The function of the last DAG of the loop: they differ only in their ids.
    run = on_message().test(run_conf={"message": {"id": "a", "payload": {"type": "login"}}})

    assert run.state == "success"
    assert "Event: {'type': 'login'}" in caplog.text
