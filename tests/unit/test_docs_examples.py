"""The snippets of ``docs/`` that are no example DAGs, run."""

from __future__ import annotations

import logging
import runpy
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_workflow.airflow_internals import airflow_release
from airflow_provider_workflow.dispatch.payloads import storable
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.documents import DOCS


def run(name: str) -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "examples" / name))


def test_own_calls_of_the_hook(connected: EmulatorServer) -> None:
    forget_inbox = run("own_calls.py")["forget_inbox"]
    connected.put("orders", 1, 2)

    assert forget_inbox("orders") == 2
    assert forget_inbox("orders") == 0


@pytest.mark.parametrize("value", [20, 1e20])
def test_a_handler_reads_payloads_that_airflow_can_and_cannot_store(
    value: float, caplog: pytest.LogCaptureFixture
) -> None:
    dag = run("payload_of.py")["dag"]
    handle, show = dag.get_task("handle").python_callable, dag.get_task("show")
    message, _ = storable({"id": "a", "payload": {"value": value}})
    dag_run = SimpleNamespace(conf={"inbox_id": "b", "message": message})
    caplog.set_level(logging.INFO)

    handle(dag_run=dag_run)
    assert f"Measured: {value}" in caplog.text
    show.render_template_fields({"dag_run": dag_run})
    assert show.env == {"VALUE": str(value)}


def test_a_decorated_function_of_two_tasks() -> None:
    module = run("inbox_dag.py")
    dag = module["handle_order"]

    assert dag.get_task("ship").upstream_task_ids == {"charge"}
    assert module["charge"].function(dag.params["message"], params=dag.params) == 40


@pytest.mark.skipif(airflow_release() < (3, 3), reason="the trigger is for Airflow 3.3")
def test_the_trigger_of_common_messaging() -> None:
    (watcher,) = run("message_queue.py")["alerts"].watchers
    path, arguments = watcher.trigger.serialize()
    assert path.endswith(".WorkflowInboxEventTrigger")
    assert arguments["inbox"] == "alerts"
