"""What stands for the message in a function with ``@inbox_dag``, and what its tasks get."""

from __future__ import annotations

import copy
import json
import pickle
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, task

from airflow_provider_workflow.decorators.message import Message, MessageArgument, message_of
from airflow_provider_workflow.dispatch.payloads import payload_of, storable

LARGE = {"amount": 2**70, "name": "a\0b", "items": [1, 2]}


def sent(payload: Any) -> dict[str, Any]:
    """A message with this payload, as it is in the conf of its run."""
    return storable({"id": "a", "created_at": None, "payload": payload, "message_attributes": {}})[0]


def context(payload: Any) -> Any:
    conf = {"inbox_id": "i", "message": sent(payload)}
    return {"dag_run": SimpleNamespace(conf=conf), "params": {"message": {"id": "example-1"}}}


def resolved(argument: MessageArgument, payload: Any) -> Any:
    return argument.resolve(context(payload))


def test_a_task_gets_the_message_as_it_is_in_the_conf() -> None:
    message = resolved(MessageArgument(), {"amount": 1})

    assert type(message) is dict
    assert message == sent({"amount": 1})


def test_a_part_of_a_message_can_be_an_argument() -> None:
    argument = MessageArgument()["payload"]["items"][0]

    assert resolved(argument, {"items": [7]}) == 7
    assert repr(argument) == "message['payload']['items'][0]"


def test_a_task_gets_a_payload_that_airflow_cannot_store() -> None:
    message = resolved(MessageArgument(), LARGE)

    assert message["payload"] == message.get("payload") == payload_of(message) == LARGE
    assert message["id"] == message.get("id") == "a"
    assert message.get("total", 1) == 1
    assert isinstance(message, dict)


def test_airflow_shows_and_stores_such_a_message_without_the_payload() -> None:
    message = resolved(MessageArgument(), LARGE)

    assert {**message} == json.loads(json.dumps(message)) == sent(LARGE)
    assert "amount" not in {**message}


def test_a_process_without_this_package_gets_such_a_message_too() -> None:
    message = resolved(MessageArgument(), LARGE)

    for copied in (pickle.loads(pickle.dumps(message)), copy.deepcopy(message)):
        assert type(copied) is dict
        assert copied["payload"] == LARGE


def test_a_task_may_change_the_payload_that_it_got() -> None:
    message = resolved(MessageArgument(), LARGE)
    message["payload"]["items"].append(3)

    assert message["payload"]["items"] == [1, 2, 3]


def test_a_part_that_airflow_cannot_store_is_named_with_what_to_do() -> None:
    payload = MessageArgument()["payload"]

    assert resolved(payload["items"], LARGE) == [1, 2]
    with pytest.raises(ValueError, match=r"^message\['payload'\]\['amount'\] is an integer of more than 64"):
        resolved(payload["amount"], LARGE)
    with pytest.raises(ValueError, match="Give the task the whole message, and use message") as caught:
        resolved(payload, LARGE)
    assert str(2**70) not in str(caught.value)


def test_a_part_that_the_message_does_not_have_is_an_error() -> None:
    with pytest.raises(KeyError):
        resolved(MessageArgument()["payload"]["total"], {"amount": 1})


@pytest.mark.parametrize("conf", [None, {}, {"message": {"id": "b"}}])
def test_a_run_without_a_message_has_that_of_its_params(conf: Any) -> None:
    found = message_of({"dag_run": SimpleNamespace(conf=conf), "params": {"message": {"id": "example-1"}}})

    assert found["id"] == ("b" if conf else "example-1")


def test_a_placeholder_is_no_collection() -> None:
    argument: Any = MessageArgument()

    with pytest.raises(TypeError):
        iter(argument)
    with pytest.raises(TypeError):
        "payload" in argument  # noqa: B015
    with pytest.raises(TypeError, match=r"^message\['payload'\] takes a key or an index in brackets, not"):
        argument["payload"][None]


@pytest.mark.parametrize("conf", [None, {}, {"message": {"id": "b", "it's": [{"n": 1}]}}])
def test_in_a_string_it_is_a_template(conf: Any) -> None:
    with DAG("d", schedule=None) as dag:

        @task
        def work(text: str) -> None: ...

        message = MessageArgument()
        work(f"{message['id']} {message[chr(105) + 't' + chr(39) + 's'][0]['n']}")
    example = {"id": "example-1", "it's": [{"n": 2}]}
    rendered: Any = dag.get_task("work")
    rendered.render_template_fields({"dag_run": SimpleNamespace(conf=conf), "params": {"message": example}})

    assert rendered.op_args == ("b 1" if conf else "example-1 2",)


def test_a_payload_is_no_template() -> None:
    with DAG("d", schedule=None) as dag:

        @task
        def work(*arguments: Any) -> None: ...

        work(MessageArgument(), MessageArgument()["payload"]["text"])
    rendered: Any = dag.get_task("work")
    rendered.render_template_fields(context({"text": "{{ 1 // 0 }}"}))

    assert rendered.op_args[0]["payload"]["text"] == rendered.op_args[1] == "{{ 1 // 0 }}"


def test_mapped_tasks_get_the_message_too() -> None:
    with DAG("d", schedule=None) as dag:

        @task
        def work(message: Any, part: int) -> None: ...

        work.partial(message=MessageArgument()).expand(part=[1, 2])
    mapped: Any = dag.get_task("work")

    assert mapped.partial_kwargs["op_kwargs"]["message"].resolve(context(1)) == sent(1)


def test_the_payload_is_decoded_once() -> None:
    message = Message(sent(LARGE))

    assert message["payload"] is message["payload"]
