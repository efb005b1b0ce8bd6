"""Which object an argument of ``inbox_dag`` is for: the DAG, its listener, or the trigger of the listener."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow.sdk import DAG, BaseOperator, BaseSensorOperator

from airflow_provider_workflow.options import check_choice, check_string, known_later

OWN = ("inbox", "dag_id", "listener", "listener_dag_id", "listener_args", "example")
"""Arguments that ``inbox_dag`` uses itself."""
LISTENERS = ("notice", "sensor")
SHARED = (
    "start_date",
    "end_date",
    "tags",
    "access_control",
    "owner_links",
    "is_paused_upon_creation",
    "auto_register",
)
"""Arguments of ``DAG`` that both DAGs get."""
REJECTED = {
    "schedule": "messages start the runs of the DAG. For another schedule too, make a second DAG",
    "trigger_dag_id": (
        "the DAG is the decorated function. For several DAGs use one WorkflowInboxSensor with trigger_dag_id"
    ),
    "acknowledge": "a message is acknowledged once its run exists",
    "task_id": "the tasks are named in the function",
}
IN_CONF = ("message", "inbox_id", "connection_id")
"""The entries of the conf of each run, which Airflow takes as values of params with these names."""


@dataclass(frozen=True)
class Arguments:
    """
    The arguments of ``inbox_dag``, by what they are for.

    :param target: of the DAG of the function.
    :param listener: of the DAG of the listener.
    :param task: of the listener's task.
    :param trigger: of the listener's asset trigger.
    """

    target: Mapping[str, Any]
    listener: Mapping[str, Any]
    task: Mapping[str, Any]
    trigger: Mapping[str, Any]


def sort_arguments(
    inbox: Any, listener: str, arguments: Mapping[str, Any], listener_args: Mapping[str, Any] | None
) -> Arguments:
    """
    Check the arguments of ``inbox_dag``, and sort them.

    :raises TypeError: an argument is unknown.
    :raises ValueError: an argument is invalid, or is not for this listener; the text names it and the fix.
    """
    if callable(inbox):
        raise TypeError('inbox_dag needs the name of the inbox: @inbox_dag(inbox="orders")')
    check_string("inbox", inbox)
    check_choice("listener", listener, LISTENERS)
    of_dag, of_task, of_trigger = _names(DAG), *_names_of(listener)
    for name in arguments:
        _check_known(name, listener, {*of_dag, *of_task, *of_trigger})
    _check_params(arguments.get("params"))
    if listener == "notice":
        for name, value in (("inbox", inbox), ("workflow_conn_id", arguments.get("workflow_conn_id"))):
            if known_later(value):
                raise ValueError(
                    f'{name} cannot be a template with listener="notice", as it is part of the asset\'s name.'
                    ' Give the id or name itself, or listener="sensor"'
                )
    return Arguments(
        target=_among(of_dag, arguments),
        listener=_among(SHARED, arguments),
        task={**_among(of_task, arguments), **(listener_args or {})},
        trigger=_among(of_trigger, arguments),
    )


def _names_of(listener: str) -> tuple[set[str], set[str]]:
    """The names of the arguments of a listener's task, and of its trigger."""
    from airflow_provider_workflow.operators.base import DispatchingOperator

    of_task = {*_names(DispatchingOperator) - {"inbox"}, "workflow_conn_id"}
    if listener == "sensor":
        from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

        return of_task | _names(WorkflowInboxSensor), set()
    from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger

    # What the trigger calls is defined elsewhere than in a DAG file, so only the task has callbacks here. And
    # a queue would be one of triggerers, where users expect one of workers.
    of_trigger = _names(WorkflowInboxNoticeTrigger) - {"inbox", "queue"}
    return of_task, of_trigger


def _names(what: Callable[..., Any]) -> set[str]:
    """The named parameters of a class, without those of its base classes."""
    parameters = inspect.signature(what).parameters.values()
    return {each.name for each in parameters if each.kind is not each.VAR_KEYWORD}


def _among(names: Iterable[str], arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: arguments[name] for name in names if name in arguments}


def _check_known(name: str, listener: str, names: set[str]) -> None:
    if name in REJECTED:
        raise ValueError(f"{name} cannot be given to inbox_dag: {REJECTED[name]}")
    if name in names:
        return
    other = next(each for each in LISTENERS if each != listener)
    if name in set().union(*_names_of(other)):
        raise ValueError(f'{name} needs listener="{other}"')
    unknown = f"inbox_dag() got an unexpected keyword argument {name!r}"
    if name in {*_names(BaseOperator), *_names(BaseSensorOperator)}:
        raise TypeError(
            f"{unknown}. For the tasks of the DAG give default_args={{{name!r}: ...}}, for the task of the"
            f" listener listener_args={{{name!r}: ...}}"
        )
    close = difflib.get_close_matches(name, {*names, *OWN}, 1)
    raise TypeError(f"{unknown}. Did you mean {close[0]!r}?" if close else unknown)


def _check_params(params: Any) -> None:
    """
    :raises ValueError: a param has the name of an entry of the conf.
    """
    for name in IN_CONF:
        if params and name in params:
            raise ValueError(
                f"params cannot have {name!r}: the conf of each run has an entry of that name, which Airflow"
                " would take as its value. Give the param another name"
            )
