"""What stands for the message in a function with ``@inbox_dag``, and what its tasks get."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, task

from airflow_provider_workflow.decorators import inbox_dag
from airflow_provider_workflow.decorators.message import MessagePlaceholder
from airflow_provider_workflow.dispatch.payloads import payload_of, storable

LARGE = {"amount": 2**70, "name": "a\0b", "items": [1, 2]}


def sent(payload: Any) -> dict[str, Any]:
    """A message with this payload, as it is in the conf of its run."""
    return storable({"id": "a", "created_at": None, "payload": payload, "message_attributes": {}})


def context(payload: Any) -> Any:
    conf = {"inbox_id": "i", "message": sent(payload)}
    return {"dag_run": SimpleNamespace(conf=conf), "params": {"message": {"id": "example-1"}}}


def resolved(argument: MessagePlaceholder, payload: Any) -> Any:
    return argument.resolve(context(payload))


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
    work.render_template_fields(context(payload))
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
    rendered.render_template_fields(context({"text": "{{ 1 // 0 }}"}))

    assert rendered.op_args[0]["payload"]["text"] == rendered.op_args[1] == "{{ 1 // 0 }}"


def test_mapped_tasks_get_the_message_too() -> None:
    with DAG("d", schedule=None) as dag:

        @task
        def work(message: Any, part: int) -> None: ...

        work.partial(message=MessagePlaceholder()).expand(part=[1, 2])
    mapped: Any = dag.get_task("work")

    assert mapped.partial_kwargs["op_kwargs"]["message"].resolve(context(1)) == sent(1)
