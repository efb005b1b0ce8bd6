"""What the function of ``@inbox_dag`` can do with its message while the file is parsed."""

from __future__ import annotations

import copy
import json
import operator
import pickle
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import BaseOperator, task, task_group

from airflow_provider_workflow.decorators import inbox_dag
from airflow_provider_workflow.decorators.message import MessagePlaceholder
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.operators.workflows import WorkflowGuessOperator
from tests.unit.decorators.parsing import dags_of

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
