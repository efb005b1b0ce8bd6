"""What an editor knows of arguments: the types say the same as the signatures, the checks and Airflow."""

from __future__ import annotations

import re
from collections.abc import Mapping
from inspect import Parameter, signature
from typing import Any, Literal, get_args, get_origin

import pytest
from airflow.sdk import DAG, BaseOperator, BaseSensorOperator

from airflow_provider_workflow import arguments
from airflow_provider_workflow.airflow_internals import airflow_release
from airflow_provider_workflow.decorators import inbox_dag
from airflow_provider_workflow.decorators.inbox_dag import OF_WAITING
from airflow_provider_workflow.decorators.workflow_inbox import WorkflowInboxDecoratedOperator
from airflow_provider_workflow.operators.base import DispatchingOperator, WorkflowOperator
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.operators.workflows import WorkflowGuessOperator
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger

NAMES = {"Any": Any, "Literal": Literal, "Mapping": Mapping}
SINCE_3_3 = {"retry_policy", "rerun_with_latest_version"}
"""Arguments of Airflow's own."""


def parameters_of(kind: Any) -> dict[str, Parameter]:
    kinds = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    return {
        name: parameter for name, parameter in signature(kind).parameters.items() if parameter.kind in kinds
    }


def types_of(kind: Any) -> dict[str, Any]:
    """The types in the signature of a class of ours."""
    # Only ours: they are strings of a few names.
    return {name: eval(str(parameter.annotation), NAMES) for name, parameter in parameters_of(kind).items()}


def test_an_editor_knows_the_arguments_that_the_listeners_share_with_their_types() -> None:
    shared = {
        **types_of(DispatchingOperator),
        "workflow_conn_id": types_of(WorkflowOperator)["workflow_conn_id"],
    }
    # Each listener names these itself, as their values differ.
    for name in ("inbox", "trigger_dag_id", "on_paused"):
        del shared[name]

    assert arguments.DispatchArguments.__annotations__ == shared


@pytest.mark.parametrize(
    ("kind", "class_name"),
    [
        (WorkflowInboxDispatchOperator, "DispatchTaskArguments"),
        (WorkflowInboxSensor, "DispatchSensorArguments"),
    ],
)
def test_a_listener_takes_the_shared_arguments_besides_its_own(kind: Any, class_name: str) -> None:
    assert signature(kind.__init__).parameters["kwargs"].annotation == f"Unpack[{class_name}]"
    assert (
        arguments.DispatchArguments.__annotations__.keys()
        <= getattr(arguments, class_name).__annotations__.keys()
    )
    assert not parameters_of(kind).keys() & getattr(arguments, class_name).__annotations__.keys()


def types_of_listener(kind: Any) -> dict[str, Any]:
    """The types of all arguments of a listener that are ours."""
    return {**types_of(WorkflowOperator), **types_of(DispatchingOperator), **types_of(kind)}


def test_an_editor_knows_the_arguments_of_a_listener_of_inbox_dag_with_their_types() -> None:
    of_kinds = {
        "notice": {
            **types_of_listener(WorkflowInboxDispatchOperator),
            **{name: types_of(WorkflowInboxNoticeTrigger)[name] for name in OF_WAITING["notice"]},
        },
        "sensor": types_of_listener(WorkflowInboxSensor),
    }
    arguments_of_both = {**of_kinds["notice"], **of_kinds["sensor"]}
    for name in ("inbox", "trigger_dag_id", "acknowledge"):
        del arguments_of_both[name]
    arguments_of_both["on_paused"] = Literal["fail", "log", "wait"]
    choices = {choice for kind in of_kinds.values() for choice in get_args(kind["on_paused"])}

    assert arguments_of_both == arguments.ListenerArguments.__annotations__
    assert choices == {*get_args(arguments_of_both["on_paused"])}


def test_an_editor_knows_the_arguments_of_a_batch_with_their_types() -> None:
    own = types_of_batch()
    known_annotations = arguments.BatchArguments.__annotations__

    assert {name: known_annotations.get(name) for name in own} == own
    assert known_annotations.keys() == own.keys() | arguments.TaskArguments.__annotations__.keys()
    assert arguments.BatchArguments.__required_keys__ == {"inbox"}


def types_of_batch() -> dict[str, Any]:
    of_function = ("python_callable", "op_kwargs")
    annotations = {
        name: parameter.annotation
        for name, parameter in parameters_of(WorkflowInboxDecoratedOperator).items()
        if name not in of_function
    }
    own = {name: eval(annotation, NAMES) for name, annotation in annotations.items()}
    return {**own, "inbox": arguments.Required[own["inbox"]], "workflow_conn_id": str}


@pytest.mark.parametrize(
    ("typed_dict", "kind", "without"),
    [
        (arguments.DagArguments, DAG, {"dag_id", "schedule"}),
        (arguments.TaskArguments, BaseOperator, set()),
        (arguments.SensorArguments, BaseSensorOperator, {"poke_interval"}),
    ],
)
def test_an_editor_knows_the_arguments_of_airflow(typed_dict: Any, kind: Any, without: set[str]) -> None:
    names = {*typed_dict.__annotations__}
    of_airflow = parameters_of(kind).keys()
    if kind is BaseSensorOperator:
        of_airflow = of_airflow | parameters_of(BaseOperator).keys()

    newer = SINCE_3_3 if airflow_release() < (3, 3) else set()
    assert names - newer == of_airflow - without


def test_inbox_dag_takes_no_argument_twice() -> None:
    names = arguments.InboxDagArguments.__annotations__.keys()

    assert names & parameters_of(inbox_dag).keys() == set()
    assert len(names) == sum(
        len(part.__annotations__) for part in (arguments.ListenerArguments, arguments.DagArguments)
    )


def choices_of(type_: Any) -> tuple[str, ...]:
    """The strings that a type allows; none if it allows any string."""
    literals = [type_] if get_origin(type_) is Literal else get_args(type_)
    return tuple(word for literal in literals if get_origin(literal) is Literal for word in get_args(literal))


KINDS: dict[Any, dict[str, Any]] = {
    WorkflowInboxDispatchOperator: {"inbox": "orders", "trigger_dag_id": "handle_order"},
    WorkflowInboxSensor: {"inbox": "orders"},
    WorkflowGuessOperator: {"description": "an order"},
}
CHOICES = [
    (kind, name, choices_of(type_))
    for kind in KINDS
    for name, type_ in (types_of(kind) if kind is WorkflowGuessOperator else types_of_listener(kind)).items()
    if choices_of(type_)
]


@pytest.mark.parametrize(("kind", "name", "choices"), CHOICES)
def test_an_editor_knows_the_choices_that_the_check_names(
    kind: Any, name: str, choices: tuple[str, ...]
) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be one of") as error_info:
        kind(task_id="a", **KINDS[kind], **{name: "other"})

    assert re.findall(r"'(\w+)'", str(error_info.value)) == [*choices, "other"]


def test_an_editor_knows_the_kinds_of_listeners() -> None:
    assert choices_of(eval(parameters_of(inbox_dag)["listener"].annotation, NAMES)) == tuple(OF_WAITING)


def test_arguments_with_choices_are_typed_so() -> None:
    assert {name for _, name, _ in CHOICES} == {"on_rejected", "on_paused", "unmatched", "acknowledge"}
