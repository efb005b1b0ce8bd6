"""``@inbox_dag``: the DAG, its listener, and the message as an argument."""

from __future__ import annotations

import copy
import json
import operator
import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, BaseOperator, Param, task, task_group
from airflow.sdk.exceptions import ParamValidationError

from airflow_provider_workflow.decorators import inbox_dag
from airflow_provider_workflow.decorators.inbox_dag import OF_TASK, OF_WAITING
from airflow_provider_workflow.decorators.message import MessagePlaceholder
from airflow_provider_workflow.dispatch.payloads import payload_of, storable
from airflow_provider_workflow.operators.base import DispatchingOperator
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.operators.workflows import WorkflowGuessOperator
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


def test_a_task_gets_the_message_as_it_is_in_the_conf() -> None:
    message = resolved(MessagePlaceholder(), {"amount": 1})

    assert type(message) is dict
    assert message == sent({"amount": 1})


def test_a_part_of_a_message_can_be_an_argument() -> None:
    argument = MessagePlaceholder()["payload"]["items"][0]

    assert resolved(argument, {"items": [7]}) == 7
    assert argument.serialize() == "message['payload']['items'][0]"


def test_a_task_gets_a_payload_that_airflow_cannot_store() -> None:
    message = resolved(MessagePlaceholder(), LARGE)

    assert message["payload"] == message.get("payload") == payload_of(message) == LARGE
    assert message["id"] == message.get("id") == "a"
    assert message.get("total", 1) == 1
    assert isinstance(message, dict)


def test_airflow_shows_and_stores_such_a_message_without_the_payload() -> None:
    message = resolved(MessagePlaceholder(), LARGE)

    assert {**message} == json.loads(json.dumps(message)) == sent(LARGE)
    assert "amount" not in {**message}


def test_a_process_without_this_package_gets_such_a_message_too() -> None:
    message = resolved(MessagePlaceholder(), LARGE)

    for copied in (pickle.loads(pickle.dumps(message)), copy.deepcopy(message)):
        assert type(copied) is dict
        assert copied["payload"] == LARGE


def test_a_task_may_change_the_payload_that_it_got() -> None:
    message = resolved(MessagePlaceholder(), LARGE)
    message["payload"]["items"].append(3)

    assert message["payload"]["items"] == [1, 2, 3]


def test_a_part_is_one_of_the_payload_that_was_sent() -> None:
    payload = MessagePlaceholder()["payload"]

    assert resolved(payload["items"], LARGE) == [1, 2]
    assert resolved(payload["amount"], LARGE) == 2**70


@pytest.mark.parametrize("payload", [{"amount": 1}, None, 5, [1]])
def test_a_part_that_the_message_does_not_have_is_an_error(payload: Any) -> None:
    with pytest.raises(
        LookupError, match=r"^The message of this run has no message\['payload'\]\['total'\]\."
    ):
        resolved(MessagePlaceholder()["payload"]["total"], payload)


@pytest.mark.parametrize("conf", [None, {}, {"message": {"id": "b"}}])
def test_a_run_without_a_message_has_that_of_its_params(conf: Any) -> None:
    run = {"dag_run": SimpleNamespace(conf=conf), "params": {"message": {"id": "example-1"}}}
    found = MessagePlaceholder().resolve(run)

    assert found["id"] == ("b" if conf else "example-1")


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


@pytest.mark.parametrize("rest", ["a\0b", 2**70, 1e400, "\ud800", {"__classname__": "x"}])
def test_a_part_in_a_string_is_sound_whatever_else_is_in_the_payload(rest: Any) -> None:
    payload = {"title": "Fix it", "it's": [{"n": 1}], "other": rest}

    assert rendered(lambda message: message["payload"]["title"], payload) == "Fix it"
    assert rendered(lambda message: f"{message['payload']['title']}", payload) == "Fix it"
    key = "it's"
    assert rendered(lambda message: f"{message['id']}: {message['payload'][key][0]['n']}", payload) == "a: 1"


@pytest.mark.parametrize(("amount", "text"), [(2**70, str(2**70)), (1e300, "1e+300")])
def test_a_string_of_a_number_that_airflow_cannot_store_can_be_stored(amount: float, text: str) -> None:
    assert rendered(lambda message: f"{message['payload']['n']} wei", {"n": amount}) == f"{text} wei"


def test_a_template_may_yield_a_value() -> None:
    native = {"render_template_as_native_obj": True}

    assert rendered(lambda message: f"{message['payload']['items']}", LARGE, **native) == [1, 2]


def test_a_template_file_reads_the_message_too() -> None:
    def twice(value: str) -> str:
        return value * 2

    template = "{{ workflow_message()['id'] | twice }} {{ twice(workflow_message('payload', 'items', 1)) }}"
    own = {"user_defined_macros": {"twice": twice}, "user_defined_filters": {"twice": twice}}

    assert rendered(lambda _: template, LARGE, **own) == "aa 4"


@pytest.mark.parametrize("conf", [None, {}, {"message": {"id": "b"}}])
def test_a_template_of_a_run_by_hand_reads_the_params(conf: Any) -> None:
    @inbox_dag("orders")
    def handle_order(message: Any) -> None:
        @task
        def work(argument: Any) -> None: ...

        work(f"{message['id']}")

    work: Any = handle_order.get_task("work")
    params = dict(handle_order.params)
    work.render_template_fields({"dag_run": SimpleNamespace(conf=conf), "params": params})

    assert work.op_args == ("b" if conf else "example-1",)


def test_a_payload_is_no_template() -> None:
    with DAG("d", schedule=None) as dag:

        @task
        def work(*arguments: Any) -> None: ...

        work(MessagePlaceholder(), MessagePlaceholder()["payload"]["text"])
    rendered: Any = dag.get_task("work")
    rendered.render_template_fields(message_context({"text": "{{ 1 // 0 }}"}))

    assert rendered.op_args[0]["payload"]["text"] == rendered.op_args[1] == "{{ 1 // 0 }}"


def test_mapped_tasks_get_the_message_too() -> None:
    with DAG("d", schedule=None) as dag:

        @task
        def work(message: Any, part: int) -> None: ...

        work.partial(message=MessagePlaceholder()).expand(part=[1, 2])
    mapped: Any = dag.get_task("work")

    assert mapped.partial_kwargs["op_kwargs"]["message"].resolve(message_context(1)) == sent(1)


PART: Any = MessagePlaceholder()["payload"]["vip"]
ASKED: dict[str, Callable[[Any], object]] = {
    "<": lambda part: part < 5,
    "iteration": list,
    "loop": lambda part: [each for each in part],  # noqa: C416
    "unpacking": lambda part: [*part],
    "in": lambda part: "a" in part,
    "len": len,
    "+": lambda part: part + 1,
    "text +": lambda part: "a" + part,
    "int": int,
    "range": range,
    "sum": sum,
    "sorted": sorted,
    "format": lambda part: f"{part:.2f}",
    "assignment": lambda part: operator.setitem(part, "a", 1),
}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_what_needs_a_value_fails_when_the_file_is_parsed(asked: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError, match="MessagePlaceholder"):
        asked(PART)


def test_it_has_no_methods_of_a_value() -> None:
    for name in ("get", "items", "total", "lower"):
        assert not hasattr(PART, name)


def test_it_is_no_json_and_says_what_it_is() -> None:
    with pytest.raises(TypeError, match=r"^Object of type MessagePlaceholder is not JSON serializable"):
        json.dumps({"vip": PART})


def test_it_may_be_copied_and_pickled() -> None:
    for copied in (copy.copy(PART), copy.deepcopy({"a": PART})["a"], pickle.loads(pickle.dumps(PART))):
        assert copied.serialize() == "message['payload']['vip']"


@pytest.mark.parametrize(
    "text",
    [f"{PART}", str(PART), f"{PART!r}", "{}".format(PART), "%s" % PART],  # noqa: UP031, UP032
)
def test_in_a_string_it_is_a_template_however_it_gets_there(text: str) -> None:
    assert text == "{{ workflow_message('payload', 'vip') }}"


class Post(BaseOperator):
    """As many operators do, it has a default for values that are not there, and checks what it gets."""

    template_fields = ("data", "method")

    def __init__(self, *, data: Any = None, method: Any = "POST", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.data = data or {}
        self.method = method
        if method == "GET" or method in ("HEAD", "TRACE"):
            raise ValueError("It must send something")


def test_operators_take_it_for_a_value_that_comes_later() -> None:
    @inbox_dag("orders")
    def handle_order(message: Any) -> None:
        payload = message["payload"]
        Post(task_id="post", data=payload, method=payload["method"])
        BashOperator(task_id="shell", bash_command=payload["command"], env={"NAME": payload["name"]})
        TriggerDagRunOperator(task_id="other", trigger_dag_id=payload["dag"], conf=payload)
        WorkflowGuessOperator(task_id="guess", description=payload["text"])
        WorkflowInboxDispatchOperator(
            task_id="dispatch",
            inbox=payload["inbox"],
            trigger_dag_id="any",
            dead_letter_dag_id=payload["dag"],
        )

        @task.branch
        def choose(payload: Any) -> str:
            return str(payload)

        @task_group
        def group(payload: Any) -> None:
            choose(payload)

        group(payload)
        choose.override(task_id="each").partial().expand(payload=[payload["a"], payload["b"]])

    post: Any = handle_order.get_task("post")
    context = {"dag_run": type("", (), {"conf": {"message": {"payload": {"method": "PUT"}}}}), "params": {}}
    post.render_template_fields(context)

    assert handle_order.task_dict.keys() >= {"post", "shell", "other", "guess", "group.choose", "each"}
    assert (post.data, post.method) == ({"method": "PUT"}, "PUT")


def test_airflow_stores_a_dag_with_it(tmp_path: Path) -> None:
    file = f"""
from airflow.sdk import task
from airflow_provider_workflow.decorators import inbox_dag

@task
def work(part, default=None): ...

@inbox_dag(inbox="orders", start_date=__import__("datetime").datetime{datetime(2025, 1, 1).timetuple()[:3]})
def handle_order(message):
    work(message["payload"]["vip"], default={{"a": [message]}})
"""
    from airflow.serialization.serialized_objects import DagSerialization

    stored = json.dumps(DagSerialization.to_dict(dags_of(tmp_path, file)["handle_order"]))
    assert "message['payload']['vip']" in stored
