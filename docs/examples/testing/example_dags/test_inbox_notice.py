"""dag.test() runs no watchers: the trigger, the schedule and the DAGs are tested one by one."""

import asyncio
import logging

from airflow.models import DagRun
from inbox_notice import deliveries, dispatch_deliveries, handle_delivery

from airflow_provider_workflow.assets import schedule_of


def test_the_watcher_makes_an_event_while_there_are_deliveries(workflow_emulator):
    workflow_emulator.put("deliveries", {"number": 1})
    (watcher,) = deliveries.watchers

    async def first_event():
        async for event in watcher.trigger.run():
            return event

    assert asyncio.run(first_event()).payload["inbox"] == "deliveries"


def test_the_events_start_the_dag():
    assert dispatch_deliveries().schedule == schedule_of(deliveries)


def test_a_delivery_starts_one_run(workflow_emulator):
    (delivery,) = workflow_emulator.put("deliveries", {"number": 1})

    run = dispatch_deliveries().test()

    assert run.state == "success"
    (conf,) = [each.conf or {} for each in DagRun.find(dag_id="handle_delivery") if delivery in each.run_id]
    assert conf["message"]["payload"] == {"number": 1}
    workflow_emulator.assert_acknowledged("deliveries", [delivery])


def test_a_delivery_is_handled(workflow_emulator, caplog):
    caplog.set_level(logging.INFO)

    run = handle_delivery().test(run_conf={"message": {"id": "a", "payload": {"number": 1}}})

    assert run.state == "success"
    assert "Delivery a: {'number': 1}" in caplog.text
