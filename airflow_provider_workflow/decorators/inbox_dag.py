"""``inbox_dag``: makes a DAG of a function, with one run per message, and the listener that starts them."""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, AssetWatcher, Param, dag

from airflow_provider_workflow.decorators.message import (
    MACRO,
    NAME,
    MessagePlaceholder,
    part_in_template,
)
from airflow_provider_workflow.options import check_choice, check_string, known_later

if TYPE_CHECKING:
    from types import FrameType

CLAIMS = "__workflow_inboxes__"
"""In the namespace of a DAG file: the DAG for which each of its inboxes has a listener."""
OF_TASK = (
    "workflow_conn_id",
    "match",
    "max_messages",
    "max_unfinished_runs",
    "on_rejected",
    "on_paused",
    "dead_letter_dag_id",
    "dead_letter_after",
    "unmatched",
    "lease_limit",
    "lease_seconds",
)
"""Arguments of the listener's task, whichever it is."""
OF_SENSOR = (
    "poll_interval",
    "max_poll_interval",
    "wake_on_events",
    "deferrable",
)
"""Further arguments of a sensor."""
OF_TRIGGER = (
    "workflow_conn_id",
    "poll_interval",
    "max_poll_interval",
    "wake_on_events",
    "renotify_seconds",
)
"""Arguments of the trigger of a notice. Without callbacks and the queue, which are the task's."""
ONLY_OF = {
    "deferrable": "sensor",
    "renotify_seconds": "notice",
}
"""Arguments of one kind of listener."""
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
REJECTED = {
    "schedule": "messages start the runs of the DAG. For another schedule too, make a second DAG",
    "trigger_dag_id": (
        "the DAG is the decorated function. For several DAGs use one WorkflowInboxSensor with trigger_dag_id"
    ),
}
IN_CONF = (
    "message",
    "inbox_id",
    "connection_id",
)
"""The entries of the conf of each run, which Airflow takes as values of params with these names."""
START = datetime(2025, 1, 1, tzinfo=UTC)
"""Any time in the past: without one, Airflow starts no run of a ``@continuous`` DAG."""
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

    The function is the body of the DAG, and is called when the file is parsed: it passes its one argument,
    the message, to tasks, which get ``{"id", "created_at", "payload", "message_attributes"}``. Each message
    starts exactly one run. Its name becomes the DAG, so ``handle_order.test()`` runs it::

        @inbox_dag(inbox="orders")
        def handle_order(message):
            ship(charge(message))

    A function with ``@task`` below ``@inbox_dag`` is a DAG with this one task.

    The DAG can also be started by hand, with a message that is typed into its form. Both DAGs must be
    unpaused.

    :param inbox: id or name of the inbox; with ``listener="sensor"`` templated.
    :param dag_id: id of the DAG; the name of the function by default.
    :param listener: ``notice`` waits in a trigger of an asset, and starts a short DAG run for each burst of
        messages; ``sensor`` waits in a DAG run that is always running, and is faster by about a second.
        See ``docs/inbox-dag.md``.
    :param listener_dag_id: id of the listener's DAG; that of the DAG and ``_listener`` by default.
    :param listener_args: arguments of the listener's task that any task has, such as ``retries``, ``queue``
        and ``on_failure_callback``.
    :param example: payload of the message in the form, any JSON value.
    :param arguments: of ``WorkflowInboxDispatchOperator`` and ``WorkflowInboxNoticeTrigger``, or of
        ``WorkflowInboxSensor``, such as ``match``, ``max_unfinished_runs`` and ``dead_letter_dag_id``; and of
        ``DAG``, such as ``params``, ``default_args`` and ``tags``. ``start_date``, ``end_date``, ``tags``,
        ``access_control``, ``owner_links``, ``is_paused_upon_creation`` and ``auto_register`` are for both
        DAGs, the other arguments of ``DAG`` not for the listener.
    :raises TypeError: an argument is unknown, or the function does not take one argument.
    :raises ValueError: an argument is invalid, or the function makes no task; the text names the fix.
    """
    _check_arguments(inbox, listener, arguments)

    def decorate(function: Callable[[Any], Any]) -> DAG:
        place = sys._getframe(1)
        target_id = dag_id or function.__name__
        _claim(place, inbox, arguments.get("workflow_conn_id", "workflow_default"), target_id)
        target = _make_target(function, target_id, arguments, example)
        listener_id = listener_dag_id or f"{target_id}_listener"
        made = _make_listener(listener, listener_id, inbox, target_id, arguments, listener_args or {})
        # As Airflow's own decorator does; it uses it outside of a DAG processor.
        target.fileloc = made.fileloc = place.f_code.co_filename
        return target

    return decorate


def _check_arguments(inbox: Any, listener: str, arguments: Mapping[str, Any]) -> None:
    if callable(inbox):
        raise TypeError('inbox_dag needs the name of the inbox: @inbox_dag(inbox="orders")')
    check_string("inbox", inbox)
    check_choice("listener", listener, ("notice", "sensor"))
    known = {*OF_TASK, *OF_SENSOR, *OF_TRIGGER, *inspect.signature(DAG).parameters} - {"dag_id"}
    for name in arguments:
        if name in REJECTED:
            raise ValueError(f"{name} cannot be given to inbox_dag: {REJECTED[name]}")
        if ONLY_OF.get(name, listener) != listener:
            raise ValueError(f'{name} needs listener="{ONLY_OF[name]}"')
        if name not in known:
            raise _unknown_argument(name, {*known, *inspect.signature(inbox_dag).parameters})
    for name in IN_CONF:
        if name in (arguments.get("params") or {}):
            raise ValueError(
                f"params cannot have {name!r}: the conf of each run has an entry of that name, which Airflow"
                " would take as its value. Give the param another name"
            )
    for name, value in (("inbox", inbox), ("workflow_conn_id", arguments.get("workflow_conn_id"))):
        if listener == "notice" and known_later(value):
            raise ValueError(
                f'{name} cannot be a template with listener="notice", as it is part of the asset\'s name.'
                ' Give the id or name itself, or listener="sensor"'
            )


def _unknown_argument(name: str, known: Iterable[str]) -> TypeError:
    close = difflib.get_close_matches(name, known, 1)
    meant = f" Did you mean {close[0]!r}?" if close else ""
    return TypeError(
        f"inbox_dag() got an unexpected keyword argument {name!r}.{meant} For the tasks of the DAG give"
        f" default_args={{{name!r}: ...}}, for the task of the listener listener_args={{{name!r}: ...}}"
    )


def _make_target(
    function: Callable[[Any], Any], dag_id: str, arguments: Mapping[str, Any], example: Any
) -> DAG:
    message = MessagePlaceholder()
    _check_signature(function)

    def body() -> Any:
        return function(message)

    of_listener = {*OF_TASK, *OF_SENSOR, *OF_TRIGGER}
    of_dag = {
        "doc_md": inspect.getdoc(function) if function.__doc__ else None,
        **{name: value for name, value in arguments.items() if name not in of_listener},
        "params": {NAME: _example(example), **(arguments.get("params") or {})},
        "user_defined_macros": {**(arguments.get("user_defined_macros") or {}), MACRO: part_in_template},
    }
    target: DAG = dag(dag_id=dag_id, schedule=None, **of_dag)(body)()
    if not target.task_dict:
        raise ValueError(
            f'the DAG "{dag_id}" has no task: {function.__name__}() only runs when the file is parsed.'
            f" Decorate the functions that it calls with @task, or itself, with @task below @inbox_dag"
        )
    _check_defaults(target)
    return target


def _make_listener(
    kind: str,
    dag_id: str,
    inbox: str,
    target_id: str,
    arguments: Mapping[str, Any],
    listener_args: Mapping[str, Any],
) -> DAG:
    """
    Make the DAG whose task starts runs of the DAG ``target_id``.

    :param kind: ``notice`` or ``sensor``.
    """
    does = f'Starts one run of the DAG "{target_id}" for each message of the inbox "{inbox}".'
    of_dag = {
        "start_date": (arguments.get("default_args") or {}).get("start_date") or START,
        **_chosen(OF_BOTH_DAGS, arguments),
        "max_active_runs": 1,
        "catchup": False,
        "description": does,
        "doc_md": does,
    }
    task = {"task_id": "start_runs", **_chosen(OF_TASK, arguments), **listener_args}
    if kind == "sensor":
        from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

        with DAG(dag_id, schedule="@continuous", **of_dag) as listener:
            options = {"deferrable": True, "timeout": NEVER, **_chosen(OF_SENSOR, arguments), **task}
            WorkflowInboxSensor(inbox=inbox, trigger_dag_id=target_id, **options)
        return listener
    from airflow_provider_workflow.assets import create_asset, schedule_of
    from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
    from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger

    trigger = WorkflowInboxNoticeTrigger(inbox, **_chosen(OF_TRIGGER, arguments))
    watchers = [AssetWatcher(name=dag_id, trigger=trigger)]
    asset = create_asset(inbox=inbox, watchers=watchers, **_chosen(("workflow_conn_id",), arguments))
    with DAG(dag_id, schedule=schedule_of(asset), **of_dag) as listener:
        WorkflowInboxDispatchOperator(inbox=inbox, trigger_dag_id=target_id, **task)
    return listener


def _chosen(names: Iterable[str], arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: arguments[name] for name in names if name in arguments}


def _check_signature(function: Callable[[Any], Any]) -> None:
    """
    :raises TypeError: the function does not take one argument.
    """
    signature = inspect.signature(function)
    try:
        if inspect.isfunction(function):
            signature.bind(NAME)
        # Airflow gives a task those of its parameters that are in the context, such as `ti`.
        elif not signature.parameters:
            raise TypeError
    except TypeError:
        name = function.__name__
        raise TypeError(f"{name}() must take one argument, the {NAME}: def {name}({NAME})") from None


def _example(payload: Any) -> Any:
    """The param that has the form of the message. Its schema accepts every message: they all are objects."""
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


def _check_defaults(target: DAG) -> None:
    """
    :raises ValueError: a param has no valid default, so that Airflow would reject the run of every message.
    """
    for name, param in target.params.items():
        try:
            param.resolve()
        except Exception as error:
            reason = str(error).partition("\n")[0]
            raise ValueError(
                f"params: {name!r} has no valid default, so Airflow would reject the run of every message:"
                f" {reason}"
            ) from None


def _claim(place: FrameType, inbox: str, conn_id: str, dag_id: str) -> None:
    """
    Note in the namespace of the DAG file which DAG has the messages of an inbox.

    :raises ValueError: it is another DAG of the same file.
    """
    claims = place.f_globals.setdefault(CLAIMS, {})
    other = claims.setdefault((conn_id, inbox), dag_id)
    if other != dag_id:
        raise ValueError(
            f'inbox {inbox!r} starts runs of "{other}" already: two listeners of one inbox would lease each'
            " other's messages. For several DAGs use one WorkflowInboxSensor, with"
            f' trigger_dag_id={{"{other}": "<expression>", "{dag_id}": "<expression>"}}'
        )
