"""``@inbox_dag``: the DAG, its listener, and the message as an argument."""

from __future__ import annotations

import copy
import json
import operator
import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from inspect import signature
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, Param, task
from airflow.sdk.exceptions import ParamValidationError

from airflow_provider_workflow.decorators import inbox_dag
from airflow_provider_workflow.decorators.inbox_dag import OF_WAITING, MessagePlaceholder
from airflow_provider_workflow.dispatch.payloads import payload_of, storable
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger


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


def test_a_sensor_waits_in_the_triggerer_as_long_as_it_takes() -> None:
    sensor: Any = made(listener="sensor")[1].get_task("start_runs")

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
def test_both_dags_have_their_file_their_names_and_what_the_function_says(kind: str) -> None:
    for given, names in (
        ({}, ("handle_order", "handle_order_listener")),
        ({"dag_id": "orders", "listener_dag_id": "wait", "doc_md": "Written."}, ("orders", "wait")),
    ):
        target, listener = made(listener=kind, **given)
        start_runs: Any = listener.get_task("start_runs")
        assert (target.dag_id, listener.dag_id, start_runs.trigger_dag_id) == (*names, names[0])
        assert target.fileloc == listener.fileloc == __file__
        assert target.doc_md == given.get("doc_md")
        assert (target.schedule, listener.max_active_runs) == (None, 1)
        assert listener.start_date is not None
        assert listener.start_date < datetime.now(UTC)

    @inbox_dag("orders")
    @task
    def handle_invoice(message: Any) -> None:
        """Handle it."""

    assert isinstance(handle_invoice, DAG)
    assert (handle_invoice.dag_id, handle_invoice.task_ids) == ("handle_invoice", ["handle_invoice"])
    assert handle_invoice.doc_md == "Handle it."


def test_the_form_has_the_message_with_the_example() -> None:
    target, _ = made(example={"total": 20})
    message = target.params["message"]
    param = target.params.get_param("message")
    assert message["payload"] == {"total": 20}
    assert set(message) == {"id", "created_at", "payload", "message_attributes"}
    assert (param.schema["type"], bool(param.description)) == ("object", True)


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
    start_runs = made(listener=kind, listener_args=own, **given)[1].get_task("start_runs")

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


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"matches": "x"}, r".*listener=.notice.* keyword argument 'matches'\. Did you mean 'match'\?"),
        ({"schedule": "@daily"}, "schedule cannot be given: messages start the runs"),
        ({"inbox": made}, r"write @inbox_dag\(inbox="),
        (
            {"listener": "sensor", "renotify_seconds": 9},
            ".*'renotify_seconds'. It is for listener=\"notice\"",
        ),
        ({"acknowledge": "auto"}, ".*'acknowledge'. Use WorkflowInboxSensor"),
        (
            {"retries": 2},
            ".*'retries'. For the tasks of the DAG give default_args={'retries': ...}, for the task of the"
            " listener listener_args={'retries': ...}",
        ),
        ({"listener_args": {"inbox": "bills"}}, ".*multiple values for keyword argument 'inbox'"),
    ],
)
def test_an_unknown_argument_is_named(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        made(**arguments)


def test_every_argument_of_a_listener_can_be_given() -> None:
    of_sensor = arguments_of(WorkflowInboxSensor) - {"trigger_dag_id", "acknowledge"}

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
        ({"inbox": "{{ x }}"}, "inbox and workflow_conn_id cannot be templates with listener=.notice."),
        ({"workflow_conn_id": "{{ x }}"}, "inbox and workflow_conn_id cannot be templates"),
        ({"params": {"rate": Param(type="number")}}, "Invalid input for param rate"),
        ({"lease_limit": 0}, "lease_limit must be a whole number from 1 to 100"),
        ({"dead_letter_after": 2}, "dead_letter_after needs dead_letter_dag_id"),
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


@pytest.mark.parametrize("function", [lambda: None, lambda message, rate: None])
def test_a_function_takes_one_argument(function: Any) -> None:
    with pytest.raises(TypeError, match=r"^<lambda>\(\) must take one argument, the message"):
        inbox_dag("orders", dag_id="orders")(function)


@pytest.mark.parametrize("conf", [None, {"rate": 3}])
def test_a_run_by_hand_works_on_the_example(conf: dict[str, Any] | None) -> None:
    target, _ = made(example=[1])
    rendered = target.get_task("work")
    context: Any = {"dag_run": SimpleNamespace(conf=conf), "params": dict(target.params), "macros": None}
    rendered.render_template_fields(context)

    assert rendered.op_args[0]["payload"] == [1]


@pytest.mark.since(3, 3, "a DAG's result")
def test_what_the_function_returns_is_the_result_of_the_dag() -> None:
    @inbox_dag("orders")
    def handle_order(message: Any) -> Any:
        return work(message)

    assert handle_order.get_task("work").returns_dag_result


LARGE = {"amount": 2**70, "name": "a\0b", "items": [1, 2]}


def sent(payload: Any) -> dict[str, Any]:
    """A message with this payload, as it is in the conf of its run."""
    return storable({"id": "a", "created_at": None, "payload": payload, "message_attributes": {}})


def message_context(payload: Any) -> Any:
    conf = {"inbox_id": "i", "message": sent(payload)}
    return {"dag_run": SimpleNamespace(conf=conf), "params": {"message": {"id": "example-1"}}}


def resolved(argument: MessagePlaceholder, payload: Any) -> Any:
    return argument.resolve(message_context(payload))


def test_a_task_gets_a_payload_that_airflow_cannot_store() -> None:
    message = resolved(MessagePlaceholder(), LARGE)

    assert message["payload"] == message.get("payload") == payload_of(message) == LARGE
    assert message["id"] == message.get("id") == "a"
    assert message.get("total", 1) == 1
    assert isinstance(message, dict)


def test_a_process_without_this_package_gets_such_a_message_too() -> None:
    message = resolved(MessagePlaceholder(), LARGE)

    for copied in (pickle.loads(pickle.dumps(message)), copy.deepcopy(message)):
        assert type(copied) is dict
        assert copied["payload"] == LARGE


@pytest.mark.parametrize("payload", [{"amount": 1}, None])
def test_a_part_that_the_message_does_not_have_is_an_error(payload: Any) -> None:
    with pytest.raises(
        LookupError, match=r"^The message of this run has no message\['payload'\]\['total'\]\."
    ):
        resolved(MessagePlaceholder()["payload"]["total"], payload)


def rendered(text: Callable[[Any], Any], payload: Any, **arguments: Any) -> Any:
    """The value of a templated argument of a task in a run of a message with this payload."""

    @inbox_dag("orders", **arguments)
    def handle_order(message: Any) -> None:
        @task
        def work(argument: Any) -> None: ...

        work(text(message))

    work: Any = handle_order.get_task("work")
    work.render_template_fields(message_context(payload))
    return work.op_args[0]


def test_a_payload_is_no_template_and_mapped_tasks_get_the_message_too() -> None:
    message = {"id": "a", "payload": {"text": "{{ 1 // 0 }}"}}
    running: Any = {"dag_run": SimpleNamespace(conf={"message": message}), "params": {}}
    with DAG("d", schedule=None) as dag:
        work(MessagePlaceholder()["payload"]["text"])
        work.override(task_id="mapped").partial(message=MessagePlaceholder()).expand_kwargs([{}])

    rendered: Any = dag.get_task("work")
    rendered.render_template_fields(running)
    assert rendered.op_args == ("{{ 1 // 0 }}",)
    mapped: Any = dag.get_task("mapped")
    assert mapped.partial_kwargs["op_kwargs"]["message"].resolve(running) == message


def test_a_part_in_a_string_is_sound_whatever_else_is_in_the_payload() -> None:
    payload = {"title": "Fix it", "it's": [{"n": 2**70}], "other": "a\0b"}

    assert rendered(lambda message: message["payload"]["title"], payload) == "Fix it"
    assert rendered(lambda message: f"{message['payload']['title']}", payload) == "Fix it"
    key = "it's"
    text = rendered(lambda message: f"{message['id']}: {message['payload'][key][0]['n']} wei", payload)
    assert text == f"a: {2**70} wei"


PART: Any = MessagePlaceholder()["payload"]["vip"]
ASKED: dict[str, Callable[[Any], object]] = {
    "json": json.dumps,
    "<": lambda part: part < 5,
    "iteration": list,
    "in": lambda part: "a" in part,
    "len": len,
    "+": lambda part: part + 1,
    "int": int,
    "format": lambda part: f"{part:.2f}",
    "assignment": lambda part: operator.setitem(part, "a", 1),
}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_what_needs_a_value_fails_when_the_file_is_parsed(asked: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError, match="MessagePlaceholder"):
        asked(PART)


def test_a_method_of_a_value_says_where_to_decide() -> None:
    with pytest.raises(AttributeError, match=r"decide in one \(@task.branch\), or .* match="):
        PART.get("vip")


def test_an_operator_that_tests_its_arguments_takes_a_part_of_the_message() -> None:
    printing = PythonOperator(task_id="print", python_callable=print, op_kwargs=PART)
    assert printing.op_kwargs is PART


def test_it_may_be_copied_and_pickled() -> None:
    for copied in (copy.copy(PART), copy.deepcopy({"a": PART})["a"], pickle.loads(pickle.dumps(PART))):
        assert copied.serialize() == "message['payload']['vip']"


def test_in_a_string_it_is_a_template_however_it_gets_there() -> None:
    assert f"{PART}" == f"{PART!r}" == "{{ workflow_message('payload', 'vip') }}"
