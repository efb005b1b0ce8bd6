"""``inbox_dag``: makes a DAG of a function, with one run per message, and the listener that starts them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

    from airflow.sdk import DAG

CLAIMS = "__workflow_inboxes__"
"""In the namespace of a DAG file: the DAG for which each of its inboxes has a listener."""


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
    from airflow_provider_workflow.decorators.arguments import sort_arguments

    given = sort_arguments(inbox, listener, arguments, listener_args)

    def decorate(function: Callable[[Any], Any]) -> DAG:
        from airflow_provider_workflow.decorators.listeners import make_listener

        place = sys._getframe(1)
        target_id = dag_id or function.__name__
        _claim(place, inbox, arguments.get("workflow_conn_id", "workflow_default"), target_id)
        target = _make_target(function, target_id, given.target, example)
        made = make_listener(listener, listener_dag_id or f"{target_id}_listener", inbox, target_id, given)
        # As Airflow's own decorator does; it uses it outside of a DAG processor.
        target.fileloc = made.fileloc = place.f_code.co_filename
        return target

    return decorate


def _make_target(function: Callable[[Any], Any], dag_id: str, given: Mapping[str, Any], example: Any) -> DAG:
    from airflow.sdk import dag

    from airflow_provider_workflow.decorators.message import NAME
    from airflow_provider_workflow.decorators.placeholder import MACRO, MessagePlaceholder, part_in_template

    message = MessagePlaceholder()
    _check_signature(function, NAME)

    def body() -> Any:
        return function(message)

    of_dag = {
        **({"doc_md": inspect.getdoc(function)} if function.__doc__ else {}),
        **given,
        "params": {NAME: _example(example), **(given.get("params") or {})},
        "user_defined_macros": {**(given.get("user_defined_macros") or {}), MACRO: part_in_template},
    }
    target: DAG = dag(dag_id=dag_id, schedule=None, **of_dag)(body)()
    if not target.task_dict:
        raise ValueError(
            f'the DAG "{dag_id}" has no task: {function.__name__}() only runs when the file is parsed.'
            f" Decorate the functions that it calls with @task, or itself, with @task below @inbox_dag"
        )
    _check_defaults(target)
    return target


def _check_signature(function: Callable[[Any], Any], argument: str) -> None:
    """
    :raises TypeError: the function does not take one argument.
    """
    signature = inspect.signature(function)
    try:
        if inspect.isfunction(function):
            signature.bind(argument)
        # Airflow gives a task those of its parameters that are in the context, such as `ti`.
        elif not signature.parameters:
            raise TypeError
    except TypeError:
        name = function.__name__
        raise TypeError(f"{name}() must take one argument, the {argument}: def {name}({argument})") from None


def _example(payload: Any) -> Any:
    """The param that has the form of the message. Its schema accepts every message: they all are objects."""
    from airflow.sdk import Param

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
