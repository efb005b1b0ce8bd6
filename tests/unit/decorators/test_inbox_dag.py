"""``@inbox_dag``: the DAG that it makes of a function, the listener, and its arguments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, Param, task
from airflow.sdk.exceptions import ParamValidationError

from airflow_provider_workflow.airflow_internals import airflow_release
from airflow_provider_workflow.decorators import inbox_dag
from airflow_provider_workflow.decorators.inbox_dag import OF_TASK, OF_WAITING
from airflow_provider_workflow.operators.base import DispatchingOperator
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger
from tests.unit.decorators.parsing import dags_of

HEAD = """
from airflow.sdk import task
from airflow_provider_workflow.decorators import inbox_dag

@task
def charge(message):
    return message["payload"]

@task
def ship(charged):
    print(charged)
"""
ORDERS = f"""{HEAD}
@inbox_dag(inbox="orders")
def handle_order(message):
    "Charge and ship an order."
    ship(charge(message))
"""


@task
def work(message: Any) -> Any:
    return message


def made(**arguments: Any) -> tuple[DAG, DAG]:
    """The DAG that the decorator makes, and its listener."""
    from airflow.sdk.definitions._internal.contextmanager import DagContext

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DagContext, "current_autoregister_module_name", __name__)
        patch.setattr(DagContext, "autoregistered_dags", set())

        @inbox_dag(**{"inbox": "orders", **arguments})
        def handle_order(message: Any) -> None:
            work(message)

        found = {dag.dag_id: dag for dag, _ in DagContext.autoregistered_dags}
    assert len(found) == 2
    assert found.pop(handle_order.dag_id) is handle_order
    return handle_order, *found.values()  # type: ignore[return-value]


def listener_task(**arguments: Any) -> Any:
    return made(**arguments)[1].get_task("start_runs")


def test_airflow_finds_the_dag_and_its_listener_in_a_plain_file(tmp_path: Path) -> None:
    dags = dags_of(tmp_path, ORDERS)

    assert set(dags) == {"handle_order", "handle_order_listener"}
    assert {dag.fileloc for dag in dags.values()} == {str(tmp_path / "dags.py")}
    assert set(dags["handle_order"].task_ids) == {"charge", "ship"}
    assert dags["handle_order"].get_task("ship").upstream_task_ids == {"charge"}
    assert dags["handle_order"].doc_md == "Charge and ship an order."


def test_a_file_may_have_several(tmp_path: Path) -> None:
    more = 'inbox_dag("bills", dag_id="handle_bill")(charge)\ninbox_dag("carts", listener="sensor")(charge)\n'

    assert set(dags_of(tmp_path, ORDERS + more)) == {
        *("handle_order", "handle_order_listener"),
        *("handle_bill", "handle_bill_listener"),
        *("charge", "charge_listener"),
    }


def test_a_function_with_task_below_is_a_dag_with_one_task() -> None:
    @inbox_dag("orders")
    @task
    def handle_order(message: Any) -> None:
        """Handle it."""

    assert isinstance(handle_order, DAG)
    assert (handle_order.dag_id, handle_order.task_ids) == ("handle_order", ["handle_order"])
    assert handle_order.doc_md == "Handle it."


def test_the_dag_is_started_by_messages_alone() -> None:
    target, listener = made()

    assert target.schedule is None
    assert listener.get_task("start_runs").trigger_dag_id == "handle_order"
    assert target.fileloc == listener.fileloc == __file__


@pytest.mark.parametrize("kind", ["notice", "sensor"])
def test_a_listener_runs_once_at_a_time_and_is_retried_with_growing_pauses(kind: str) -> None:
    _, listener = made(listener=kind)
    start_runs = listener.get_task("start_runs")

    assert listener.max_active_runs == 1
    assert listener.start_date is not None
    assert listener.start_date < datetime.now(UTC)
    assert start_runs.retries == (20 if kind == "sensor" else 5)
    assert start_runs.retry_delay == timedelta(seconds=10)
    assert start_runs.max_retry_delay == timedelta(minutes=10)


def test_a_sensor_waits_in_the_triggerer_as_long_as_it_takes() -> None:
    sensor = listener_task(listener="sensor")

    assert isinstance(sensor, WorkflowInboxSensor)
    assert (sensor.inbox, sensor.deferrable) == ("orders", True)
    assert sensor.timeout > timedelta(days=300).total_seconds()
    assert sensor.get_dag().schedule == "@continuous"


def test_a_notice_starts_the_listener() -> None:
    _, listener = made(listener="notice", renotify_seconds=30, workflow_conn_id="shop")
    condition = listener.timetable.asset_condition  # type: ignore[attr-defined]
    (asset,) = getattr(condition, "objects", (condition,))
    (watcher,) = asset.watchers
    start_runs = listener.get_task("start_runs")

    assert isinstance(start_runs, WorkflowInboxDispatchOperator)
    assert asset.uri == "workflow-inbox://shop/orders"
    assert watcher.trigger.serialize()[1]["renotify_seconds"] == 30
    assert watcher.trigger.serialize()[1]["workflow_conn_id"] == start_runs.workflow_conn_id == "shop"


@pytest.mark.parametrize("kind", ["notice", "sensor"])
def test_arguments_of_the_listener_reach_its_task(kind: str) -> None:
    given = {
        "match": "payload.total",
        "max_unfinished_runs": 5,
        "dead_letter_dag_id": "dead_order",
        "dead_letter_after": 1,
        "unmatched": "dead_letter",
        "on_rejected": "log",
        "lease_seconds": 600,
        "lease_limit": 7,
        "max_messages": 9,
        "workflow_conn_id": "shop",
    }
    own = {"retries": 3, "queue": "quick"}
    start_runs = listener_task(listener=kind, listener_args=own, **given)

    limits = ("max_unfinished_runs", "lease_seconds", "lease_limit", "max_messages")
    for name, value in (given | own).items():
        assert getattr(start_runs.limits if name in limits else start_runs, name) == value


def test_arguments_of_a_dag_are_for_the_target_and_some_for_both() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    both = {"tags": ["shop"], "start_date": start, "is_paused_upon_creation": False}
    own = {"default_args": {"retries": 2}, "max_active_runs": 3, "description": "x", "params": {"rate": 2}}
    target, listener = made(**both, **own, dag_display_name="Orders")

    assert target.tags == listener.tags == {"shop"}
    assert target.start_date == listener.start_date == start
    assert target.is_paused_upon_creation is listener.is_paused_upon_creation is False
    assert (target.max_active_runs, target.description, target.dag_display_name) == (3, "x", "Orders")
    assert target.get_task("work").retries == 2
    assert target.params["rate"] == 2
    assert listener.dag_display_name == "handle_order_listener"
    assert listener.get_task("start_runs").retries == 5


def test_both_dags_can_be_named() -> None:
    target, listener = made(dag_id="orders", listener_dag_id="wait_for_orders", doc_md="Written.")

    assert (target.dag_id, listener.dag_id) == ("orders", "wait_for_orders")
    assert target.doc_md == "Written."
    assert listener.get_task("start_runs").trigger_dag_id == "orders"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"matches": "x"}, r'inbox_dag\(listener="notice"\) got an unexpected keyword argument .matches.'),
        ({"schedule": "@daily"}, ".*unexpected keyword argument 'schedule'"),
        ({"trigger_dag_id": "x"}, ".*unexpected keyword argument 'trigger_dag_id'"),
        ({"listener": "sensor", "renotify_seconds": 9}, ".*sensor.*keyword argument 'renotify_seconds'"),
        ({"deferrable": True}, ".*notice.*keyword argument 'deferrable'"),
        (
            {"retries": 2},
            ".*'retries'. For the tasks of the DAG give default_args={'retries': ...}, for the task of the"
            " listener listener_args={'retries': ...}",
        ),
        # Users mean one of workers; a watcher's would be one of triggerers.
        (
            {"queue": "quick"},
            ".*'queue'. For the tasks of the DAG give default_args={'queue': ...}, for the task of the"
            " listener listener_args={'queue': ...}",
        ),
        ({"listener_args": {"inbox": "bills"}}, ".*multiple values for keyword argument 'inbox'"),
    ],
)
def test_an_unknown_argument_is_named(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        made(**arguments)


def test_every_argument_of_a_listener_can_be_given() -> None:
    of_sensor = arguments_of(WorkflowInboxSensor) - {"trigger_dag_id", "acknowledge"}

    assert {*OF_TASK} == arguments_of(DispatchingOperator) - {"trigger_dag_id"} | {"workflow_conn_id"}
    assert {*OF_WAITING["sensor"]} == of_sensor
    # Users mean a queue of workers.
    assert {*OF_WAITING["notice"]} == arguments_of(WorkflowInboxNoticeTrigger) - {"queue"}


def arguments_of(kind: type) -> set[str]:
    return {*signature(kind).parameters} - {"inbox", "kwargs"}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"inbox": ""}, "inbox must"),
        ({"listener": "poll"}, "listener must be one of 'notice', 'sensor', not 'poll'"),
        ({"inbox": print}, "inbox must be a string"),
        ({"inbox": "{{ x }}"}, "inbox and workflow_conn_id cannot be templates with listener=.notice."),
        ({"workflow_conn_id": "{{ x }}"}, "inbox and workflow_conn_id cannot be templates"),
        ({"params": {"rate": Param(type="number")}}, "Invalid input for param rate"),
        ({"lease_limit": 0}, "lease_limit must be a whole number from 1 to 100"),
        ({"match": "&&"}, "match is no valid JMESPath"),
    ],
)
def test_a_wrong_argument_is_named_with_its_fix(arguments: dict[str, Any], text: str) -> None:
    # That of Airflow is a ValueError from 3.3 on.
    with pytest.raises((ValueError, ParamValidationError), match=f"^{text}"):
        made(**arguments)


def test_a_function_without_tasks_would_only_run_at_parse_time() -> None:
    with pytest.raises(ValueError, match=r'^the DAG "handle_order" has no task: handle_order\(\) only runs'):

        @inbox_dag("orders")
        def handle_order(message: Any) -> None:
            """It has forgotten @task."""


def test_a_function_takes_the_message_and_nothing_else() -> None:
    def handle_order() -> None: ...

    def both(message: Any, more: Any) -> None: ...

    for function in (handle_order, task(handle_order), both):
        with pytest.raises(TypeError, match=r"argument"):
            inbox_dag("orders", dag_id="any")(function)


def test_a_task_may_take_what_airflow_gives_it_beside_the_message() -> None:
    @inbox_dag("orders")
    @task
    def handle_order(message: Any, ti: Any, params: Any = None) -> None: ...

    assert handle_order.task_ids == ["handle_order"]


def test_the_form_has_a_message_with_the_example() -> None:
    target, _ = made(example={"total": 20})
    message = target.params["message"]
    param = target.params.get_param("message")

    assert message["payload"] == {"total": 20}
    assert set(message) == {"id", "created_at", "payload", "message_attributes"}
    assert param.schema["type"] == "object"
    assert param.description


@pytest.mark.parametrize("conf", [None, {}, {"rate": 3}])
def test_a_run_by_hand_works_on_the_example(conf: dict[str, Any] | None) -> None:
    target, _ = made(example=[1])
    rendered = target.get_task("work")
    rendered.render_template_fields(context(conf, dict(target.params)))

    assert rendered.op_args[0]["payload"] == [1]


def context(conf: dict[str, Any] | None, params: dict[str, Any] | None = None) -> Any:
    return {"dag_run": SimpleNamespace(conf=conf), "params": params or {}, "macros": None}


def test_the_message_of_the_run_counts_and_not_the_params() -> None:
    # They are the example where [core] dag_run_conf_overrides_params is off.
    target, _ = made()
    rendered = target.get_task("work")
    message = {"id": "a", "payload": {"n": 1}}
    rendered.render_template_fields(context({"inbox_id": "i", "message": message}, dict(target.params)))

    assert rendered.op_args == (message,)


@pytest.mark.skipif(airflow_release() < (3, 3), reason="a DAG's result came with Airflow 3.3")
def test_what_the_function_returns_is_the_result_of_the_dag() -> None:
    @inbox_dag("orders")
    def handle_order(message: Any) -> Any:
        return work(message)

    assert handle_order.get_task("work").returns_dag_result
