"""``inbox_dag``: makes a DAG with one run per message, and the listener that starts them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from types import SimpleNamespace
from typing import Any, get_args, get_origin, get_type_hints

from airflow.sdk import DAG, AssetWatcher, Param, dag

from airflow_provider_workflow.decorators.message import MACRO, NAME, MessagePlaceholder, part_in_template
from airflow_provider_workflow.operators.base import DispatchingOperator
from airflow_provider_workflow.options import check_choice, check_string, known_later
from airflow_provider_workflow.types import Message

OF_TASK = {
    "workflow_conn_id",
    *(inspect.signature(DispatchingOperator).parameters.keys() - {"inbox", "trigger_dag_id", "kwargs"}),
}
"""Arguments that both kinds of listener task take."""
OF_WAITING = {
    "notice": (
        "workflow_conn_id",
        "poll_interval",
        "max_poll_interval",
        "wake_on_events",
        "renotify_seconds",
    ),
    "sensor": ("poll_interval", "max_poll_interval", "wake_on_events", "deferrable"),
}
"""By listener: the arguments of the sensor, or of the trigger of the notices."""
OF_BOTH_DAGS = (
    "start_date",
    "end_date",
    "tags",
    "access_control",
    "owner_links",
    "is_paused_upon_creation",
    "auto_register",
)
"""Arguments of ``DAG`` that the listener gets too."""
START = datetime(2025, 1, 1, tzinfo=UTC)
"""Any past time: without one, Airflow starts no run of a ``@continuous`` DAG."""
NEVER = timedelta(days=365)
"""How long a sensor waits: an inbox without messages is no failure."""


def inbox_dag(
    inbox: str,
    *,
    dag_id: str | None = None,
    listener: str = "notice",
    listener_dag_id: str | None = None,
    listener_args: Mapping[str, Any] | None = None,
    example: Any = None,
    **arguments: Any,
) -> Callable[[Callable[[Any], Any]], DAG]:
    """
    Make a DAG of a function, and a listener that starts one run of it for each message of an inbox.

    The function is called when the file is parsed: it passes its one argument, the message, to tasks, which
    get ``{"id", "created_at", "payload", "message_attributes"}``. ``handle_order.test()`` runs the DAG::

        @inbox_dag(inbox="orders")
        def handle_order(message):
            ship(charge(message))

    A function with ``@task`` below ``@inbox_dag`` is a DAG with this one task.

    If the argument has an annotation ``Message[Order]``, ``Order`` is the ``schema`` of payloads.
    Both DAGs must be unpaused.

    :param inbox: id or name of the inbox; with ``listener="sensor"`` templated.
    :param dag_id: id of the DAG; the name of the function by default.
    :param listener: ``notice`` waits in a trigger of an asset, and starts a short DAG run for each burst of
        messages; ``sensor`` waits in a DAG run that is always running, and is faster by about a second.
        See ``docs/inbox-dag.md``.
    :param listener_dag_id: id of the listener's DAG; that of the DAG and ``_listener`` by default.
    :param listener_args: arguments of the listener's task that any task has, such as ``retries``.
    :param example: payload of the message in the form, any JSON value.
    :param arguments: of the listener and of ``DAG``: ``docs/inbox-dag.md`` says what each is for.
    :raises TypeError: an argument is unknown.
    :raises ValueError: an argument is invalid, or the function makes no task.
    """
    _check_arguments(inbox, listener, arguments)
    file = sys._getframe(1).f_code.co_filename

    def decorate(function: Callable[[Any], Any]) -> DAG:
        if inspect.isfunction(function):
            try:
                inspect.signature(function).bind(NAME)
            except TypeError:
                raise TypeError(f"{function.__name__}() must take one argument, the message") from None
        target = _make_target(function, dag_id or function.__name__, listener, arguments, example)
        listener_id = listener_dag_id or f"{target.dag_id}_listener"
        of_listener = {"schema": payload_type(function), **arguments}
        waiting = _make_listener(
            inbox, target.dag_id, listener_id, listener, of_listener, listener_args or {}
        )
        # As Airflow's own decorator does; it uses it outside of a DAG processor.
        target.fileloc = waiting.fileloc = file
        return target

    return decorate


def _check_arguments(inbox: str, listener: str, arguments: Mapping[str, Any]) -> None:
    if callable(inbox):
        raise TypeError('write @inbox_dag(inbox="..."), with the id or name of the inbox')
    check_string("inbox", inbox)
    check_choice("listener", listener, tuple(OF_WAITING))
    if "schedule" in arguments:
        raise TypeError("schedule cannot be given: messages start the runs")
    known = {*OF_TASK, *OF_WAITING[listener], *inspect.signature(DAG).parameters}
    if unknown := sorted(arguments.keys() - known):
        name, names = unknown[0], {*known, *inspect.signature(inbox_dag).parameters}
        near = get_close_matches(name, names, n=1, cutoff=0.8)
        fix = (
            f"For the tasks of the DAG give default_args={{{name!r}: ...}}, for the task of the listener"
            f" listener_args={{{name!r}: ...}}"
        )
        raise TypeError(
            f'inbox_dag(listener="{listener}") got an unexpected keyword argument {name!r}.'
            f" {f'Did you mean {near[0]!r}?' if near else fix}"
        )
    if listener == "notice" and any(map(known_later, (inbox, arguments.get("workflow_conn_id")))):
        raise ValueError(
            'inbox and workflow_conn_id cannot be templates with listener="notice", as they are parts of the'
            ' name of an asset. Give the names themselves, or listener="sensor"'
        )


def payload_type(function: Callable[..., Any]) -> Any:
    """
    The type of the payload in the annotation of the first argument; None without one.

    :raises ValueError: the annotation cannot be read.
    """
    function = getattr(function, "function", function)  # with @task below
    names = [*inspect.signature(function).parameters][:1]
    try:
        annotations = {name: inspect.get_annotations(function).get(name, Any) for name in names}
        hints = get_type_hints(SimpleNamespace(__annotations__=annotations), function.__globals__)
    except NameError as error:
        raise ValueError(
            f"the annotation of {names[0]} cannot be read: {error}. Import the name where the file is parsed,"
            " not only for type checkers"
        ) from None
    for hint in hints.values():
        hint = getattr(hint, "__value__", hint)  # of an alias
        if get_origin(hint) is Message and get_args(hint) != (Any,):
            return get_args(hint)[0]
    return None


def _make_target(
    function: Callable[[Any], Any], dag_id: str, listener: str, arguments: Mapping[str, Any], example: Any
) -> DAG:
    of_dag = arguments.keys() - {*OF_TASK, *OF_WAITING[listener]}
    options: dict[str, Any] = {
        "doc_md": inspect.cleandoc(function.__doc__ or "") or None,
        **_chosen(of_dag, arguments),
        "params": {NAME: _example(example), **(arguments.get("params") or {})},
        "user_defined_macros": {**(arguments.get("user_defined_macros") or {}), MACRO: part_in_template},
    }

    def body() -> Any:
        return function(MessagePlaceholder())  # type: ignore[arg-type, unused-ignore]

    target: DAG = dag(dag_id=dag_id, schedule=None, **options)(body)()
    if not target.task_dict:
        raise ValueError(
            f'the DAG "{dag_id}" has no task: {function.__name__}() only runs when the file is parsed.'
            f" Decorate the functions that it calls with @task, or itself, with @task below @inbox_dag"
        )
    # Without a valid default Airflow would reject the run of every message.
    target.params.validate()
    return target


def _make_listener(
    inbox: str,
    target_id: str,
    dag_id: str,
    listener: str,
    arguments: Mapping[str, Any],
    listener_args: Mapping[str, Any],
) -> DAG:
    """The DAG of the sensor or operator that starts runs of the target."""
    if listener == "sensor":
        from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

        task: Any = WorkflowInboxSensor
        schedule: Any = "@continuous"
        options = {"deferrable": True, "timeout": NEVER, **_chosen(OF_WAITING[listener], arguments)}
    else:
        from airflow_provider_workflow.assets import create_asset, schedule_of
        from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
        from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger

        task, options = WorkflowInboxDispatchOperator, {}
        trigger = WorkflowInboxNoticeTrigger(inbox, **_chosen(OF_WAITING["notice"], arguments))
        watchers = [AssetWatcher(name=dag_id, trigger=trigger)]
        of_connection = _chosen(("workflow_conn_id",), arguments)
        schedule = schedule_of(create_asset(inbox=inbox, watchers=watchers, **of_connection))
    description = f'Starts one run of the DAG "{target_id}" for each message of the inbox "{inbox}".'
    of_dag = {
        "start_date": START,
        **_chosen(OF_BOTH_DAGS, arguments),
        "schedule": schedule,
        "max_active_runs": 1,
        "catchup": False,
        "description": description,
        "doc_md": description,
    }
    of_task = {"task_id": "start_runs", **options, **_chosen(OF_TASK, arguments), **listener_args}
    with DAG(dag_id, **of_dag) as listener_dag:
        task(inbox=inbox, trigger_dag_id=target_id, **of_task)
    return listener_dag


def _chosen(names: Iterable[str], arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: arguments[name] for name in names if name in arguments}


def _example(payload: Any) -> Any:
    """The param that has the form of the message. Its schema accepts every message."""
    message = {
        "id": "example-1",
        "payload": {"example": True} if payload is None else payload,
        "created_at": "2025-01-01T00:00:00Z",
        "message_attributes": {
            "lease_count": 1,
            "error_message": None,
            "possible_duplicate_data": False,
        },
    }
    return Param(
        message,
        title="Message",
        description="The listener sets it. For a run by hand, change the payload of this example.",
        type="object",
    )
