"""What the function of ``@inbox_dag`` cannot ask while the file is parsed: the values of a message."""

from __future__ import annotations

import copy
import json
import operator
import pickle
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import BaseOperator, task, task_group

from airflow_provider_workflow.decorators import inbox_dag
from airflow_provider_workflow.decorators.inbox_dag import CLAIMS
from airflow_provider_workflow.decorators.message import MessagePlaceholder
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.operators.workflows import WorkflowGuessOperator
from tests.unit.decorators.parsing import NO_EXAMPLES, DagBag, dags_of

PART: Any = MessagePlaceholder()["payload"]["vip"]
REFUSED = (
    "message['payload']['vip'] cannot be used here, as it is known only when a task runs: move this into a"
    " task, or use match"
)


@pytest.fixture(autouse=True)
def claimed() -> None:
    """Each test is as a DAG file of its own."""
    globals().pop(CLAIMS, None)


def chosen(part: Any) -> str:
    match part:
        case "vip":
            return "big"
    return "small"


ASKED: dict[str, Callable[[Any], object]] = {
    "truth": lambda part: "big" if part else "small",
    "not": operator.not_,
    "and": lambda part: part and 1,
    "==": lambda part: part == "vip",
    "== on the right": lambda part: "vip" == part,  # noqa: SIM300
    "!=": lambda part: part != "vip",
    "match": chosen,
    "<": lambda part: part < 5,
    "> on the right": lambda part: 5 > part,  # noqa: SIM300
    "iteration": list,
    "loop": lambda part: [each for each in part],  # noqa: C416
    "unpacking": lambda part: [*part],
    "** unpacking": lambda part: {**part},
    "in": lambda part: "a" in part,
    "in a list": lambda part: part in ["a", "b"],
    "len": len,
    "key of a dictionary": lambda part: {"vip": 1}[part],
    "key that is stored": lambda part: {part: 1},
    "+": lambda part: part + 1,
    "text +": lambda part: "a" + part,
    "- on the right": lambda part: 1 - part,
    "*": lambda part: part * 1.5,
    "minus": lambda part: -part,
    "round": round,
    "int": int,
    "float": float,
    "range": range,
    "sum": sum,
    "max": lambda part: max(part, 1),
    "sorted": sorted,
    "format": lambda part: f"{part:.2f}",
    "assignment": lambda part: operator.setitem(part, "a", 1),
}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_what_depends_on_a_value_is_refused_with_what_to_do(asked: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(REFUSED)}$"):
        asked(PART)


@pytest.mark.parametrize("name", ["get", "items", "total", "lower"])
def test_methods_and_attributes_are_refused_with_what_to_do(name: str) -> None:
    text = (
        f"message['payload']['vip'] has no {name!r} while the file is parsed, as it is known only when a task"
        f" runs: give a task the whole message and use {name!r} there; in the function take parts in"
        ' brackets, as in message["payload"]'
    )
    with pytest.raises(AttributeError, match=f"^{re.escape(text)}$"):
        getattr(PART, name)
    assert getattr(PART, name, None) is None


def test_a_key_is_a_string_or_a_position() -> None:
    with pytest.raises(
        TypeError, match=r"^message\['payload'\]\['vip'\] takes a key or an index in brackets, not"
    ):
        PART[None]


def test_it_is_no_json_and_says_what_it_is() -> None:
    with pytest.raises(TypeError, match=r"^Object of type MessagePlaceholder is not JSON serializable"):
        json.dumps({"vip": PART})


def test_a_dag_that_chooses_by_a_message_is_an_import_error(tmp_path: Path) -> None:
    file = """
from airflow.sdk import task
from airflow_provider_workflow.decorators import inbox_dag

@task
def big(message): ...

@inbox_dag(inbox="orders")
def handle_order(message):
    if message["payload"]["vip"]:
        big(message)
"""
    (tmp_path / "dags.py").write_text(file)
    bag = DagBag(str(tmp_path), **NO_EXAMPLES)

    assert not bag.dags
    assert REFUSED in bag.import_errors[str(tmp_path / "dags.py")]


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
