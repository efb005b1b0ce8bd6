"""``inbox_dag``: makes a DAG with one run per message, and the listener that starts them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

import jinja2
from airflow.sdk import DAG, AssetWatcher, Param, dag

from airflow_provider_workflow.operators.base import DispatchingOperator
from airflow_provider_workflow.options import check_choice, check_string, known_later
from airflow_provider_workflow.types import Message

if TYPE_CHECKING:
    from airflow.sdk import Context

NAME = "message"
"""The entry of a run's conf, and the param that has the example."""
MACRO = "workflow_message"
"""The macro of the DAG with which its templates read the message."""
NO_VALUE = "its value is known in tasks: decide in one (@task.branch), or choose messages with match="
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
        if near:
            fix = f"Did you mean {near[0]!r}?"
        for other in (kind for kind in OF_WAITING if name in OF_WAITING[kind]):
            fix = f'It is for listener="{other}"'
        if name in ("trigger_dag_id", "acknowledge"):
            fix = "Use WorkflowInboxSensor"
        text = f'inbox_dag(listener="{listener}") got an unexpected keyword argument {name!r}'
        raise TypeError(f"{text}. {fix}")
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
    function = inspect.unwrap(getattr(function, "function", function))  # with @task below
    names = [*inspect.signature(function).parameters][:1]
    try:
        annotations = {name: inspect.get_annotations(function).get(name, Any) for name in names}
        hints = get_type_hints(
            SimpleNamespace(__annotations__=annotations), getattr(function, "__globals__", {})
        )
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


class WholeMessage(dict[str, Any]):
    """
    A message whose payload Airflow cannot store, with the payload that the service sent.

    ``message["payload"]`` and ``message.get("payload")`` return that payload. All else shows the message as
    Airflow stores it, so that Airflow can store it as the argument of a task. Pickled, as for
    ``@task.virtualenv``, it is a plain dictionary with that payload.
    """

    def __init__(self, stored: Mapping[str, Any], payload: Any) -> None:
        super().__init__(stored)
        self._payload = payload

    def __getitem__(self, key: str) -> Any:
        return self._payload if key == "payload" else super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        return self._payload if key == "payload" else super().get(key, default)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, ({**self, "payload": self._payload},)


class MessagePlaceholder:
    """
    Stands for the message of a run, or a part of it, while a DAG file is parsed.

    As an argument of a task, or in a template field, Airflow replaces it by the value when the task runs.
    ``argument["payload"]["total"]`` is the part of the message at that path. In an f-string it becomes a
    Jinja template, which calls ``part_in_template``.

    :param path: keys and indexes from the message to the part.
    """

    def __init__(self, path: tuple[str | int, ...] = ()) -> None:
        self._path = path

    def __getitem__(self, key: str | int) -> MessagePlaceholder:
        return MessagePlaceholder((*self._path, key))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"A MessagePlaceholder has no {name!r}: {NO_VALUE}")

    # With ``__getitem__`` alone, Python would iterate over it without an end.
    __iter__ = __contains__ = None

    def __str__(self) -> str:
        return f"{{{{ {MACRO}({', '.join(map(repr, self._path))}) }}}}"

    # Also a template when a container that holds it is formatted, as in f"{[message['id']]}".
    __repr__ = __str__

    def serialize(self) -> str:
        """What Airflow's pages show in the fields of a task before it runs."""
        return NAME + "".join(f"[{key!r}]" for key in self._path)

    def resolve(self, context: Mapping[str, Any] | Context) -> Any:
        """
        The value for the running task.

        :raises LookupError: the message has no such part.
        """
        value = _message_of_run(context)
        try:
            for key in self._path:
                value = value[key]
        except (LookupError, TypeError):
            raise LookupError(
                f"The {NAME} of this run has no {self.serialize()}. Give the task the whole {NAME}, and"
                " decide in the task what to do without it"
            ) from None
        return value


def _message_of_run(context: Mapping[str, Any] | Context) -> Any:
    conf = context["dag_run"].conf or {}
    # Not of the params alone: [core] dag_run_conf_overrides_params may be off.
    message = conf[NAME] if NAME in conf else context["params"][NAME]
    if message.get("payload_json") is None:
        return message
    from airflow_provider_workflow.dispatch.payloads import payload_of

    return WholeMessage(message, payload_of(message))


@jinja2.pass_context
def part_in_template(context: jinja2.runtime.Context, *path: str | int) -> Any:
    """The message of a run, or a part of it: ``{{ workflow_message("payload", "total") }}``."""
    return MessagePlaceholder(path).resolve(context.get_all())
