"""``@inbox_dag``: the DAG, its listener, and the message as an argument."""

from __future__ import annotations

import copy
import operator
import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from inspect import signature
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, BaseOperator, Param, TaskGroup, task, task_group
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization
from typing_extensions import TypedDict

from airflow_provider_workflow.airflow_internals import airflow_release
from airflow_provider_workflow.decorators import inbox_dag
from airflow_provider_workflow.decorators.inbox_dag import OF_TASK, OF_WAITING, MessagePlaceholder
from airflow_provider_workflow.dispatch.payloads import payload_of, storable
from airflow_provider_workflow.operators.base import DispatchingOperator, WorkflowOperator
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger
from airflow_provider_workflow.types import Message


@task
def work(message: Any) -> Any:
    return message


def handle_order(message: Any) -> None:
    work(message)


@contextmanager
def parsed_file() -> Iterator[Any]:
    """A file that Airflow parses."""
    from airflow.sdk.definitions._internal.contextmanager import DagContext

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DagContext, "current_autoregister_module_name", __name__)
        patch.setattr(DagContext, "autoregistered_dags", set())
        yield DagContext


def dags_of(function: Any = handle_order, **arguments: Any) -> tuple[DAG, DAG]:
    """The DAG that the decorator makes of a function, and its listener."""
    with parsed_file() as context:
        target = inbox_dag(**{"inbox": "orders", **arguments})(function)
        dags = {dag.dag_id: dag for dag, _ in context.autoregistered_dags}
    assert len(dags) == 2
    assert dags.pop(target.dag_id) is target
    return target, *dags.values()  # type: ignore[return-value]


def test_a_sensor_waits_in_the_triggerer_as_long_as_it_takes() -> None:
    sensor: Any = dags_of(listener="sensor")[1].get_task("start_runs")

    assert isinstance(sensor, WorkflowInboxSensor)
    assert (sensor.inbox, sensor.deferrable) == ("orders", True)
    assert sensor.timeout > timedelta(days=300).total_seconds()
    assert sensor.get_dag().schedule == "@continuous"


def asset_of(listener: Any) -> Any:
    condition = listener.timetable.asset_condition
    (asset,) = getattr(condition, "objects", (condition,))
    return asset


def arguments_of_trigger(listener: Any) -> Mapping[str, Any]:
    (watcher,) = asset_of(listener).watchers
    return watcher.trigger.serialize()[1]  # type: ignore[no-any-return]


def test_a_notice_starts_the_listener() -> None:
    _, listener = dags_of(listener="notice", workflow_conn_id="shop")
    start_runs = listener.get_task("start_runs")

    assert isinstance(start_runs, WorkflowInboxDispatchOperator)
    assert asset_of(listener).uri == "workflow-inbox://shop/orders"
    assert arguments_of_trigger(listener)["workflow_conn_id"] == start_runs.workflow_conn_id == "shop"


VALUES = {
    "workflow_conn_id": "shop",
    "match": "payload.total",
    "once_per": "payload.order_id",
    "trace_context": "payload.traceparent",
    "schema": {"required": ["total"]},
    "max_unfinished_runs": 5,
    "dead_letter_dag_id": "dead_order",
    "dead_letter_after": 1,
    "unmatched": "dead_letter",
    "on_rejected": "log",
    "on_paused": "log",
    "lease_seconds": 600,
    "lease_limit": 7,
    "max_messages": 9,
    "poll_interval": 7.0,
    "max_poll_interval": 70.0,
    "wake_on_events": False,
    "deferrable": False,
    "renotify_seconds": 30.0,
}
"""A value of each argument of a listener that is not its default."""


@pytest.mark.parametrize("kind", ["notice", "sensor"])
def test_both_dags_have_their_file_their_names_and_what_the_function_says(kind: str) -> None:
    for arguments, names in (
        ({}, ("handle_order", "handle_order_listener")),
        ({"dag_id": "orders", "listener_dag_id": "wait", "doc_md": "Written."}, ("orders", "wait")),
    ):
        target, listener = dags_of(listener=kind, **arguments)
        start_runs: Any = listener.get_task("start_runs")
        assert (target.dag_id, listener.dag_id, start_runs.trigger_dag_id) == (*names, names[0])
        assert target.fileloc == listener.fileloc == __file__
        assert target.doc_md == arguments.get("doc_md")
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
    target, _ = dags_of(example={"total": 20})
    message = target.params["message"]
    param = target.params.get_param("message")
    assert message["payload"] == {"total": 20}
    assert set(message) == {"id", "created_at", "payload", "message_attributes"}
    assert (param.schema["type"], bool(param.description)) == ("object", True)


@pytest.mark.parametrize("kind", ["notice", "sensor"])
@pytest.mark.parametrize("name", sorted(OF_TASK))
def test_every_argument_of_a_listener_reaches_its_task(name: str, kind: str) -> None:
    if name == "trace_context" and airflow_release() < (3, 4):
        pytest.skip("trace_context needs Airflow 3.4")
    value = "wait" if (kind, name) == ("sensor", "on_paused") else VALUES[name]
    needed = {} if name == "dead_letter_dag_id" else {"dead_letter_dag_id": "dead_order"}
    default = dags_of(listener=kind)[1].get_task("start_runs")
    task = dags_of(listener=kind, **{**needed, name: value})[1].get_task("start_runs")

    assert value_of(task, name) == value != value_of(default, name)


def value_of(task: Any, name: str) -> Any:
    return getattr(task.limits if hasattr(task.limits, name) else task, name)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in OF_WAITING for name in OF_WAITING[kind]])
def test_every_argument_of_waiting_reaches_the_sensor_or_the_trigger(kind: str, name: str) -> None:
    def waiting(**arguments: Any) -> Mapping[str, Any]:
        listener = dags_of(listener=kind, **arguments)[1]
        if kind == "notice":
            return arguments_of_trigger(listener)
        sensor = vars(listener.get_task("start_runs"))
        return {**sensor, "poll_interval": sensor["poke_interval"]}

    assert waiting(**{name: VALUES[name]})[name] == VALUES[name]
    assert waiting().get(name) != VALUES[name]


@pytest.mark.parametrize("kind", ["notice", "sensor"])
def test_arguments_of_any_task_reach_that_of_the_listener(kind: str) -> None:
    start_runs = dags_of(listener=kind, listener_args={"retries": 3, "queue": "quick"})[1].get_task(
        "start_runs"
    )

    assert (start_runs.retries, start_runs.queue) == (3, "quick")


class Order(TypedDict):
    total: int


@dataclass
class Item:
    total: int


@pytest.mark.parametrize("kind", ["notice", "sensor"])
@pytest.mark.parametrize("with_task", [True, False])
def test_the_annotation_is_the_schema_of_the_listener_unless_one_is_given(with_task: bool, kind: str) -> None:
    def typed(message: Message[Order]) -> None:
        work(message)

    def untyped(message):  # type: ignore[no-untyped-def]
        work(message)

    own = {"required": ["total"]}

    def schema_of(function: Any, **arguments: Any) -> Any:
        listener = dags_of(task(function) if with_task else function, listener=kind, **arguments)[1]
        return listener.get_task("start_runs").schema  # type: ignore[attr-defined]

    assert schema_of(typed) is Order
    assert schema_of(untyped) is None
    assert schema_of(typed, schema=own) == schema_of(untyped, schema=own) == own
    assert schema_of(typed, schema=None) is None


def test_an_annotation_that_is_no_message_is_an_error_also_with_a_schema() -> None:
    def of_payload(message: Item) -> None:
        work(message)

    def own(message: Order) -> None:  # a dictionary, as a message is
        work(message)

    def unreadable(message: Missing) -> None:  # type: ignore[name-defined]  # noqa: F821
        work(message)

    for arguments in ({}, {"schema": Item}, {"schema": None}):
        with pytest.raises(ValueError, match=r"^of_payload\(\) gets a message, which .*Item is not"):
            dags_of(of_payload, **arguments)
    for function in (own, unreadable):
        assert dags_of(function, schema=Item)
        with pytest.raises(ValueError, match="message"):
            dags_of(function)


def test_arguments_of_a_dag_are_for_the_target_and_some_for_both() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    dag_arguments = {"tags": ["shop"], "start_date": start, "is_paused_upon_creation": False}
    own = {"default_args": {"retries": 2}, "max_active_runs": 3, "description": "x", "params": {"rate": 2}}
    target, listener = dags_of(**dag_arguments, **own, dag_display_name="Orders")

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
        ({"inbox": dags_of}, r"write @inbox_dag\(inbox="),
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
        dags_of(**arguments)


def test_every_argument_of_a_listener_can_be_given() -> None:
    bases = (WorkflowOperator, DispatchingOperator, WorkflowInboxSensor)
    of_sensor = {name for kind in bases for name in arguments_of(kind)} - {"trigger_dag_id", "acknowledge"}

    assert {*OF_TASK, *OF_WAITING["sensor"]} == of_sensor
    # Users mean a queue of workers.
    assert {*OF_WAITING["notice"]} == arguments_of(WorkflowInboxNoticeTrigger) - {"queue"}


def arguments_of(kind: type) -> set[str]:
    return {*signature(kind).parameters} - {"inbox", "kwargs"}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"inbox": ""}, "inbox must"),
        ({"listener_dag_id": "handle_order"}, "listener_dag_id must be another id than that of the DAG"),
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
        dags_of(**arguments)


def test_a_function_without_tasks_would_only_run_at_parse_time() -> None:
    with pytest.raises(ValueError, match=r'^the DAG "handle_order" has no task: handle_order\(\) only runs'):

        @inbox_dag("orders")
        def handle_order(message: Any) -> None:
            """It has forgotten @task."""


def test_a_task_above_is_said_to_be_in_the_wrong_order() -> None:
    with pytest.raises(ValueError, match=r"order of its decorators is wrong: write @task below @inbox_dag$"):

        @task
        @inbox_dag("orders")
        def handle_order(message: Any) -> None:
            """It would be a task too late."""


def test_a_function_without_a_source_that_can_be_read_has_the_general_fix() -> None:
    made: dict[str, Any] = {}
    exec("def handle_order(message): ...", made)
    with pytest.raises(ValueError, match="with @task; or, to make it a task itself, write @task below"):
        inbox_dag("orders")(made["handle_order"])


@pytest.mark.parametrize("function", [lambda: None, lambda message, rate: None, task(lambda: None)])
def test_a_function_takes_one_argument(function: Any) -> None:
    text = rf"^{re.escape(__file__)}: <lambda>\(\) must take one argument, the message"
    with pytest.raises(TypeError, match=text):
        inbox_dag("orders", dag_id="orders")(function)


def test_a_task_takes_no_other_argument_either() -> None:
    def ship(message: Any, price: Any) -> None: ...

    text = rf"^{re.escape(__file__)}: ship\(\) must take one argument, the message: .* 'price'"
    with pytest.raises(TypeError, match=text):
        dags_of(task(ship))


def test_a_task_may_take_its_context_too() -> None:
    def with_context(message: Any, ti: Any, params: Any = None) -> None: ...

    assert dags_of(task(with_context))[0].task_ids == ["with_context"]


def test_a_dag_is_not_called_again() -> None:
    target, _ = dags_of()
    text = rf'^{re.escape(__file__)}: the DAG "handle_order" is already made by @inbox_dag. Remove the call'
    with pytest.raises(TypeError, match=text):
        target()  # type: ignore[operator]


def test_an_example_that_the_listener_would_reject_is_an_error() -> None:
    def typed(message: Message[Order]) -> None:
        work(message)

    text = (
        rf"^{re.escape(__file__)}: the example of 'typed' would be rejected: .*: \$.total: not a whole number"
    )
    with pytest.raises(ValueError, match=text):
        dags_of(typed, example={"total": "many"})
    assert dags_of(typed, example={"total": 7})[0].params["message"]["payload"] == {"total": 7}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"once_per": "payload.oder_id"},
            r"has no business key: once_per \(payload.oder_id\) is empty for it",
        ),
        (
            {"match": "payload.total > `100`"},
            r"starts no run: match \(payload.total > `100`\) is false for it",
        ),
        (
            {"match": "payload.order_id > `1`"},
            r"would be rejected: match \(.*\) cannot be evaluated on it: > comp",
        ),
    ],
)
def test_an_example_shows_a_mistake_in_an_expression_when_the_file_is_parsed(
    arguments: dict[str, Any], text: str
) -> None:
    example = {"order_id": "7", "total": 20}

    with pytest.raises(ValueError, match=rf"^{re.escape(__file__)}: the example of 'handle_order' {text}"):
        dags_of(example=example, **arguments)
    assert dags_of(**arguments)
    later = dict.fromkeys(arguments, "{{ var.value.expression }}")
    assert dags_of(example=example, listener="sensor", **later)
    assert dags_of(example=example, once_per="payload.order_id", match="payload.total > `10`")


def test_two_listeners_of_an_inbox_in_one_file_are_an_error() -> None:
    def both(**second: Any) -> None:
        with parsed_file():
            for arguments in ({"dag_id": "charge"}, {"dag_id": "ship", **second}):
                inbox_dag(**{"inbox": "orders", **arguments})(handle_order)

    text = rf"^{re.escape(__file__)}: the DAGs 'charge' and 'ship' both listen to the inbox 'orders', so"
    for listener in ("notice", "sensor"):
        with pytest.raises(ValueError, match=rf"{text}.*={{'charge': <expression>, 'ship': <expression>}}$"):
            both(listener=listener)
    both(inbox="bills")
    both(workflow_conn_id="shop")


@pytest.mark.parametrize(
    "second", [{"inbox": "bills"}, {}, {"workflow_conn_id": "shop"}, {"listener_dag_id": "another"}]
)
def test_two_functions_of_one_name_in_one_file_are_an_error(second: dict[str, Any]) -> None:
    """Airflow keeps the second one: nothing listens to the first inbox, or runs the first function."""
    text = r"the file makes the DAG 'handle_order' twice, and Airflow keeps the second one only\. .* dag_id="
    with parsed_file():
        inbox_dag("orders")(handle_order)
        with pytest.raises(ValueError, match=rf"^{re.escape(__file__)}: {text}"):
            inbox_dag(**{"inbox": "orders", **second})(handle_order)


@pytest.mark.parametrize("conf", [None, {"rate": 3}])
def test_a_run_by_hand_works_on_the_example(conf: dict[str, Any] | None) -> None:
    target, _ = dags_of(example=[1])
    render = target.get_task("work")
    context: Any = {"dag_run": SimpleNamespace(conf=conf), "params": dict(target.params), "macros": None}
    render.render_template_fields(context)

    assert render.op_args[0]["payload"] == [1]


@pytest.mark.since(3, 3, "a DAG's result")
def test_what_the_function_returns_is_the_result_of_the_dag() -> None:
    @inbox_dag("orders")
    def handle_order(message: Any) -> Any:
        return work(message)

    assert handle_order.get_task("work").returns_dag_result


LARGE = {"amount": 2**70, "name": "a\0b", "items": [1, 2]}


def message_of(payload: Any) -> dict[str, Any]:
    """A message with this payload, as it is in the conf of its run."""
    return storable({"id": "a", "created_at": None, "payload": payload, "message_attributes": {}})


def message_context(payload: Any) -> Any:
    conf = {"inbox_id": "i", "message": message_of(payload)}
    return {"dag_run": SimpleNamespace(conf=conf), "params": {"message": {"id": "example-1"}}}


def resolve(argument: MessagePlaceholder, payload: Any) -> Any:
    return argument.resolve(message_context(payload))


def test_a_task_gets_a_payload_that_airflow_cannot_store() -> None:
    message = resolve(MessagePlaceholder(), LARGE)

    assert message["payload"] == message.get("payload") == payload_of(message) == LARGE
    assert message["id"] == message.get("id") == "a"
    assert message.get("total", 1) == 1
    assert isinstance(message, dict)


def test_a_process_without_this_package_gets_such_a_message_too() -> None:
    message = resolve(MessagePlaceholder(), LARGE)

    for copied_message in (pickle.loads(pickle.dumps(message)), copy.deepcopy(message)):
        assert type(copied_message) is dict
        assert copied_message["payload"] == LARGE


@pytest.mark.parametrize("payload", [{"amount": 1}, None])
def test_a_part_that_the_message_does_not_have_is_an_error(payload: Any) -> None:
    with pytest.raises(
        LookupError, match=r"^The message of this run has no message\['payload'\]\['total'\]\."
    ):
        resolve(MessagePlaceholder()["payload"]["total"], payload)


def render(text: Callable[[Any], Any], payload: Any, **arguments: Any) -> Any:
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
    context: Any = {"dag_run": SimpleNamespace(conf={"message": message}), "params": {}}
    with DAG("d", schedule=None) as dag:
        work(MessagePlaceholder()["payload"]["text"])
        work.override(task_id="mapped").partial(message=MessagePlaceholder()).expand_kwargs([{}])

    render: Any = dag.get_task("work")
    render.render_template_fields({**context, "task": render})
    assert render.op_args == ("{{ 1 // 0 }}",)
    mapped_task: Any = dag.get_task("mapped")
    assert mapped_task.partial_kwargs["op_kwargs"]["message"].resolve(context) == message


def test_a_part_in_a_string_is_sound_whatever_else_is_in_the_payload() -> None:
    payload = {"title": "Fix it", "it's": [{"n": 2**70}], "other": "a\0b"}

    assert render(lambda message: message["payload"]["title"], payload) == "Fix it"
    assert render(lambda message: f"{message['payload']['title']}", payload) == "Fix it"
    key = "it's"
    text = render(lambda message: f"{message['id']}: {message['payload'][key][0]['n']} wei", payload)
    assert text == f"a: {2**70} wei"


@pytest.mark.parametrize("part", [slice(0, 2), slice(1, None), slice(None, None, -1), slice(-2, 9)], ids=str)
def test_a_slice_is_the_same_in_a_string_and_as_an_argument(part: slice) -> None:
    payload = {"items": [10, 20, 30]}

    assert render(lambda message: message["payload"]["items"][part], payload) == payload["items"][part]
    text = render(lambda message: f"{message['payload']['items'][part]}", payload)
    assert text == str(payload["items"][part])
    last = render(lambda message: f"{message['payload']['items'][part][-1]}", payload)
    assert last == str(payload["items"][part][-1])


PART: Any = MessagePlaceholder()["payload"]["vip"]
ASKED: dict[str, Callable[[Any], object]] = {
    "if": lambda part: "a" if part else "b",
    "not": lambda part: not part,
    "or": lambda part: part or "default",
    "and": lambda part: part and "value",
    "==": lambda part: part == "vip",
    "!=": lambda part: part != "vip",
    "<": lambda part: part < 5,
    ">=": lambda part: part >= 5,
    "5 <": lambda part: part > 5,
    "iteration": list,
    "unpacking": lambda part: [*part],
    "in": lambda part: "a" in part,
    "in a list": lambda part: part in ["a"],
    "in a set": lambda part: part in {"a"},
    "a dictionary": lambda part: {"a": 1}.get(part, 2),
    "len": len,
    "+": lambda part: part + 1,
    "text +": lambda part: "a" + part,
    "-": lambda part: 1 - part,
    "+ alone": lambda part: +part,
    "~": lambda part: ~part,
    "&": lambda part: part & 1,
    "|": lambda part: part | {"a": 1},
    "| of a dictionary": lambda part: {"a": 1} | part,
    "divmod": lambda part: divmod(part, 2),
    "int": int,
    "float": float,
    "index": lambda part: [1, 2][part],
    "round": round,
    "format": lambda part: f"{part:.2f}",
    "assignment": lambda part: operator.setitem(part, "a", 1),
    "deletion": lambda part: operator.delitem(part, "a"),
    "a method": lambda part: part.get("vip"),
    "a field": lambda part: part.total,
}


SENTENCE = r"^message\['payload'\]\['vip'\] .*known only in tasks. Decide in a task .*@task.branch.* match="


@pytest.mark.parametrize("use", ASKED.values(), ids=ASKED)
def test_what_needs_a_value_is_an_error_that_says_where_to_decide(use: Callable[[Any], object]) -> None:
    def handle_order(message: Any) -> None:
        use(message["payload"]["vip"])
        work(message)

    with pytest.raises((TypeError, AttributeError), match=SENTENCE):
        dags_of(handle_order)


def decide(part: Any) -> None:
    work("vip" if part else "usual")


@pytest.mark.parametrize("by", [lambda part: [*map(decide, [part])], task_group(decide)])
def test_so_it_is_in_all_that_the_function_calls(by: Callable[[Any], object]) -> None:
    def handle_order(message: Any) -> None:
        by(message["payload"]["vip"])

    with pytest.raises(TypeError, match=SENTENCE):
        dags_of(handle_order)


class Comparing(BaseOperator):
    """An operator that compares its arguments, as operators do."""

    template_fields = ("env", "text")

    def __init__(self, *, env: Any = None, text: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.env = env or {}
        self.text = "none" if text in (None, "") or text == "a" or text in {"b"} else text


def test_airflow_and_operators_may_test_what_they_are_given() -> None:
    def handle_order(message: Any) -> None:
        part = message["payload"]["vip"]
        PythonOperator(task_id="print", python_callable=print, op_kwargs=part)
        Comparing(task_id="test", env=message["payload"], text=part)
        Comparing.partial(task_id="mapped", env=part).expand(text=[part, message["id"]])
        work.partial(message=message).expand_kwargs([{}])
        with TaskGroup("group"):
            work([part, {"part": part}])
        copy.deepcopy(message)

    target, listener = dags_of(handle_order)
    test: Any = target.get_task("test")
    test.render_template_fields(message_context({"vip": 7}))
    assert (test.env, test.text) == ({"vip": 7}, 7)
    for dag in (target, listener):
        assert DagSerialization.from_dict(DagSerialization.to_dict(dag)).task_ids == dag.task_ids
        assert copy.deepcopy(dag).task_ids == dag.task_ids


@pytest.mark.parametrize("key", [None, 1.5, (1, 2), PART, slice("a", None)], ids=str)
def test_what_is_no_key_of_json_chooses_no_part(key: Any) -> None:
    with pytest.raises(
        TypeError, match=r"^a part of message\['payload'\]\['vip'\] is chosen by a string, an index"
    ):
        PART[key]


@pytest.mark.parametrize(
    ("key", "fix"),
    [
        ("total", r"a field of its payload is message\['payload'\]\['total'\]"),
        ("paylod", "did you mean 'payload'"),
        (0, "a field of its payload is"),
    ],
)
def test_a_field_that_no_message_has_is_an_error_when_the_file_is_parsed(key: Any, fix: str) -> None:
    def handle_order(message: Any) -> None:
        work(message[key])

    with pytest.raises(LookupError, match=rf"^a message has no {key!r}.*{fix}"):
        dags_of(handle_order)


def test_an_operator_that_tests_its_arguments_takes_a_part_of_the_message() -> None:
    printing = PythonOperator(task_id="print", python_callable=print, op_kwargs=PART)
    assert printing.op_kwargs is PART


def test_it_may_be_copied_pickled_and_compared_where_no_function_is_decorated() -> None:
    for copied_part in (copy.copy(PART), copy.deepcopy({"a": PART})["a"], pickle.loads(pickle.dumps(PART))):
        assert copied_part.serialize() == "message['payload']['vip']"
        assert (copied_part != PART, PART in {PART}, bool(PART)) == (True, True, True)


def test_in_a_string_it_is_a_template_however_it_gets_there() -> None:
    assert f"{PART}" == f"{PART!r}" == "{{ workflow_message('payload', 'vip') }}"
