"""The snippets of ``docs/`` that are no example DAGs, run."""

from __future__ import annotations

import logging
import runpy
from datetime import UTC, datetime
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from airflow.sdk.api.datamodels._generated import DagRun, TIRunContext
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from airflow_provider_workflow.airflow_internals import airflow_release
from airflow_provider_workflow.dispatch.payloads import storable
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.documents import DOCS
from tests.unit.workbench import INBOX, Workbench


def run(name: str) -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "examples" / name))


def test_own_calls_of_the_hook(connected: EmulatorServer) -> None:
    forget_inbox = run("own_calls.py")["forget_inbox"]
    connected.put("orders", 1, 2)

    assert forget_inbox("orders") == 2
    assert forget_inbox("orders") == 0


def test_an_observer_of_ones_own_is_told_of_started_runs(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.syspath_prepend(DOCS / "examples")
    monkeypatch.setenv("AIRFLOW__WORKFLOW__OBSERVERS", "observer.observe, missing.observe")
    bench.put("a", "b")
    bench.dispatcher().drain()

    assert import_module("observer").started == {INBOX: 2}
    assert caplog.text.count("The observer missing.observe failed: ModuleNotFoundError") == 1
    assert bench.states == {}


@pytest.mark.parametrize("value", [20, 1e20])
def test_a_handler_reads_payloads_that_airflow_can_and_cannot_store(
    value: float, caplog: pytest.LogCaptureFixture
) -> None:
    dag = run("payload_of.py")["dag"]
    handle, show = dag.get_task("handle").python_callable, dag.get_task("show")
    message = storable({"id": "a", "payload": {"value": value}})
    dag_run = SimpleNamespace(conf={"inbox_id": "b", "message": message})
    caplog.set_level(logging.INFO)

    handle(dag_run=dag_run)
    assert f"Measured: {value}" in caplog.text
    show.render_template_fields({"dag_run": dag_run})
    assert show.env == {"VALUE": str(value)}


def test_the_day_of_a_run_without_a_logical_date() -> None:
    dag = run("day_of_a_message.py")["dag"]
    message = {"id": "a", "created_at": "2026-02-28T23:59:59Z", "payload": None}
    template = context_of_a_run(dag.get_task("file_order"), {"message": message})

    assert {"ds", "ts", "logical_date", "data_interval_start"} & set(template) == set()
    template["ti"].task.render_template_fields(template)
    assert template["ti"].task.env == {"DAY": "2026-03-01", "SENT": "2026-02-28T23:59:59Z"}
    assert dag.get_task("day").python_callable(dag_run=template["dag_run"]) == "2026-03-01"


def context_of_a_run(task: Any, conf: dict[str, Any]) -> Any:
    """What Airflow gives a task of a run that a message started at one o'clock on the first of March."""
    now = datetime(2026, 3, 1, 1, tzinfo=UTC)
    known = {
        "dag_id": "file_order",
        "run_id": "workflow__a",
        "conf": conf,
        "run_after": now,
        "start_date": now,
    }
    rest = {"run_type": "manual", "state": "running", "consumed_asset_events": []}
    dag_run = DagRun(**{**dict.fromkeys(DagRun.model_fields), **known, **rest})
    from_server = TIRunContext(dag_run=dag_run, max_tries=0, should_retry=False, task_reschedule_count=0)
    ti = RuntimeTaskInstance.model_construct(
        **{"id": uuid4(), "task": task, "task_id": task.task_id, "dag_id": "file_order"},
        **{"run_id": "workflow__a", "try_number": 1, "map_index": -1, "start_date": now, "max_tries": 0},
        _ti_context_from_server=from_server,
    )
    return ti.get_template_context()


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
