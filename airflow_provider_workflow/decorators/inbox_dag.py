"""``inbox_dag``: makes a DAG with one run per message, and the listener that starts them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import jinja2
from airflow.sdk import DAG, AssetWatcher, BaseOperator, Param, TaskGroup, dag

from airflow_provider_workflow.airflow_internals import dags_of_parsed_file
from airflow_provider_workflow.operators.base import DispatchingOperator
from airflow_provider_workflow.options import check_choice, check_string, known_later
from airflow_provider_workflow.types import Message

if TYPE_CHECKING:
    from types import FrameType
    from typing import Unpack

    from airflow.sdk import Context

    from airflow_provider_workflow.arguments import InboxDagArguments, SensorArguments

NAME = "message"
"""The entry of a run's conf, and the param that has the example."""
MACRO = "workflow_message"
"""The macro of the DAG with which its templates read the message."""
KNOWN_IN_TASKS = "is known only in tasks. Decide in a task (@task.branch), or choose messages with match="
"""What an error says of the message, or of a part of it, while the DAG file is parsed."""
LISTENER_TASK = "start_runs"
"""Id of the task of each listener."""
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
    listener: Literal["notice", "sensor"] = "notice",
    listener_dag_id: str | None = None,
    listener_args: SensorArguments | Mapping[str, Any] | None = None,
    example: Any = None,
    **arguments: Unpack[InboxDagArguments],
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
    :raises TypeError: an argument is unknown, or the function cannot be called with the message; from within
        the function, if it asks for the value of the message, or of a part of it.
    :raises LookupError: from within the function, if it asks for a field that no message has.
    :raises ValueError: an argument is invalid, ``example`` would start no run, the function makes no task,
        or the file has another listener of the inbox, or another DAG of this id.
    """
    _check_arguments(inbox, listener, arguments)
    file = sys._getframe(1).f_code.co_filename

    def decorate(function: Callable[[Any], Any]) -> DAG:
        _check_parameters(function, file)
        target_id = dag_id or function.__name__
        annotated = payload_type(function, is_needed="schema" not in arguments)
        of_listener = {"schema": annotated, **arguments}
        target = _make_target(function, target_id, listener, arguments, example)
        listener_id = listener_dag_id or f"{target_id}_listener"
        if listener_id == target_id:
            raise ValueError(f"listener_dag_id must be another id than that of the DAG, {target_id!r}")
        waiting = _make_listener(inbox, target_id, listener_id, listener, of_listener, listener_args or {})
        task: Any = waiting.get_task(LISTENER_TASK)
        _check_other_dags_of_file(target, task, file)
        if example is not None and (problem := _problem_of_example(task, example)):
            raise ValueError(f"{file}: the example of {target_id!r} {problem}")
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


def _check_parameters(function: Callable[..., Any], file: str) -> None:
    """
    :raises TypeError: the function cannot be called with the message alone.
    """
    own = getattr(function, "function", function)  # with @task below
    if not inspect.isfunction(own):
        return
    from airflow.sdk import Context

    signature = inspect.signature(own)
    # The parameters of a task may also be entries of its context.
    further_names = () if own is function else [*signature.parameters][1:]
    try:
        signature.bind(NAME, **{name: None for name in further_names if name in Context.__annotations__})
    except TypeError as error:
        text = f"{file}: {own.__name__}() must take one argument, the message: {error}"
        raise TypeError(text) from None


def _check_other_dags_of_file(target: DAG, task: Any, file: str) -> None:
    """
    :param task: of the listener.
    :raises ValueError: the file has another listener of the inbox, or another DAG with the id of the target.
    """
    dags = dags_of_parsed_file()
    if any(dag.dag_id == target.dag_id for dag in dags if dag is not target):
        raise ValueError(
            f"{file}: the file makes the DAG {target.dag_id!r} twice, and Airflow keeps the second one only."
            " Rename one of the functions, or give it a dag_id="
        )
    tasks: list[Any] = [dag.task_dict.get(LISTENER_TASK) for dag in dags]
    for other in tasks:
        if not isinstance(other, DispatchingOperator):
            continue
        is_same_inbox = (other.inbox, other.workflow_conn_id) == (task.inbox, task.workflow_conn_id)
        if is_same_inbox and other.trigger_dag_id != task.trigger_dag_id:
            one, two = repr(other.trigger_dag_id), repr(task.trigger_dag_id)
            raise ValueError(
                f"{file}: the DAGs {one} and {two} both listen to the inbox {task.inbox!r}, so each leases"
                " the messages of the other. Use one WorkflowInboxSensor, with"
                f" trigger_dag_id={{{one}: <expression>, {two}: <expression>}}"
            )


def _problem_of_example(task: Any, payload: Any) -> str:
    """
    Why the listener would start no run for the payload of the example, or one without a business key; "" if
    it would start one.

    :param task: of the listener.
    """
    expressions = {"match": task.match, "once_per": task.once_per}
    known = {name: None if known_later(text) else text for name, text in expressions.items()}
    try:
        if task.check_payload is not None:
            task.check_payload(payload)
        if any(expression is not None for expression in known.values()):
            # Imports jmespath, as the listener has done for them.
            from airflow_provider_workflow.dispatch.routing import Routes

            routes, message = Routes(task.trigger_dag_id, **known), _example(payload).value
            if not routes.accepts(message):
                return f"starts no run: match ({task.match}) is false for it"
            if routes.has_keys and routes.key(message) is None:
                return f"has no business key: once_per ({task.once_per}) is empty for it"
    except ValueError as error:
        return f"would be rejected: {error}"
    return ""


def payload_type(function: Callable[..., Any], *, is_needed: bool = True) -> Any:
    """
    The type of the payload in the annotation of the first argument; None without one.

    :param is_needed: False accepts any annotation but a class of which no message is an instance.
    :raises ValueError: the annotation cannot be read, or is not that of a message.
    """
    function = inspect.unwrap(getattr(function, "function", function))  # with @task below
    names = [*inspect.signature(function).parameters][:1]
    try:
        annotations = {name: inspect.get_annotations(function).get(name, Any) for name in names}
        hints = get_type_hints(
            SimpleNamespace(__annotations__=annotations),
            getattr(function, "__globals__", {}),
            include_extras=True,  # the constraints of Annotated
        )
    except Exception as error:  # whatever evaluating it raises
        if not is_needed:
            return None
        raise ValueError(
            f"the annotation of {names[0]} cannot be read: {error}. Import the name where the file is parsed,"
            " not only for type checkers, or give schema="
        ) from None
    for name, hint in hints.items():
        kind = _without_alias(hint)
        if get_origin(kind) is Message:
            return None if get_args(kind) == (Any,) else get_args(kind)[0]
        is_message = kind in (Any, Message) or (get_origin(kind) or kind) in (dict, Mapping, MutableMapping)
        may_be_one = not isinstance(kind, type) or kind in dict.__mro__ or dict in kind.__mro__
        if not (is_message or (may_be_one and not is_needed)):
            raise ValueError(
                f"{function.__name__}() gets a message, which {inspect.formatannotation(hint)} is not. Write"
                f" {name}: Message[Order], where Order is the type of the payload"
            )
    return None


def _without_alias(hint: Any) -> Any:
    """What an alias, or ``Annotated`` around a message, stands for."""
    while True:
        alias = get_origin(hint) or hint
        if alias is Annotated:
            hint = get_args(hint)[0]
        elif hasattr(alias, "__value__"):
            hint = alias.__value__[get_args(hint)] if get_args(hint) else alias.__value__
        else:
            return hint


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
        text = f'the DAG "{dag_id}" has no task: {function.__name__}() only runs when the file is parsed.'
        if _is_below_task(function):
            raise ValueError(f"{text} The order of its decorators is wrong: write @task below @inbox_dag")
        raise ValueError(
            f"{text} Decorate the functions that it calls with @task; or, to make it a task itself, write"
            " @task below @inbox_dag"
        )
    # Without a valid default Airflow would reject the run of every message.
    target.params.validate()
    target.__class__ = InboxDAG  # Airflow's decorator makes a DAG
    return target


def _is_below_task(function: Callable[..., Any]) -> bool:
    """Whether ``@task`` is the topmost decorator of the function, as far as its source can be read."""
    try:
        # The source of a function begins with its first decorator.
        return inspect.getsource(function).lstrip().startswith("@task")
    except (OSError, TypeError):
        return False


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
    of_task = {"task_id": LISTENER_TASK, **options, **_chosen(OF_TASK, arguments), **listener_args}
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


class InboxDAG(DAG):
    """The DAG of a function, which exists once the function is decorated: calling it is an error."""

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(
            f'{self.fileloc}: the DAG "{self.dag_id}" is already made by @inbox_dag. Remove the call; .test()'
            " runs it"
        )


class WholeMessage(dict[str, Any]):
    """
    A message whose payload Airflow cannot store, or that is in the payload store.

    ``message["payload"]`` and ``message.get("payload")`` return the payload that the service sent, which is
    decoded, or read, once it is asked for. All else shows the message as Airflow stores it, so that Airflow
    can store it as the argument of a task. Pickled, as for ``@task.virtualenv``, it is a plain dictionary
    with that payload.
    """

    @cached_property
    def _payload(self) -> Any:
        from airflow_provider_workflow.dispatch.payloads import payload_of

        return payload_of(dict(self))

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

    The function that is decorated cannot ask for its value: what needs one is a TypeError or an
    AttributeError. Airflow and operators may compare it, and ask for its truth, as in ``env or {}``.

    :param path: keys, indexes and slices from the message to the part.
    """

    def __init__(self, path: tuple[str | int | slice, ...] = ()) -> None:
        self._path = path

    def __getitem__(self, key: str | int | slice) -> MessagePlaceholder:
        is_key = isinstance(key, (str, int))
        if isinstance(key, slice):
            is_key = all(bound is None or isinstance(bound, int) for bound in _bounds(key))
        if not is_key:
            raise TypeError(
                f"a part of {self.serialize()} is chosen by a string, an index or a slice, not by a"
                f" {type(key).__name__}: choose it in a task"
            )
        if not self._path and not isinstance(key, slice) and key not in Message.__annotations__:
            near = get_close_matches(str(key), Message.__annotations__, n=1, cutoff=0.8)
            of_payload = MessagePlaceholder(("payload", key)).serialize()
            fix = f"did you mean {near[0]!r}?" if near else f"a field of its payload is {of_payload}"
            raise LookupError(f"a message has no {key!r}; {fix}")
        return MessagePlaceholder((*self._path, key))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(f"{self.serialize()} has no {name!r}: it {KNOWN_IN_TASKS}")

    def __bool__(self) -> bool:
        if _is_in_function():
            raise TypeError(f"{self.serialize()} {KNOWN_IN_TASKS}")
        return True

    def __eq__(self, other: object) -> bool:
        if _is_in_function():
            raise TypeError(f"{self.serialize()} {KNOWN_IN_TASKS}")
        return self is other

    def __hash__(self) -> int:  # also asked for by ``in`` of a set, and by a dictionary
        if _is_in_function():
            raise TypeError(f"{self.serialize()} {KNOWN_IN_TASKS}")
        return id(self)

    def __iter__(self) -> Iterator[Any]:
        if sys._getframe(1).f_globals.get("__name__", "").startswith("airflow.sdk."):
            return iter(())  # Airflow looks for outputs of tasks
        raise TypeError(f"{self.serialize()} {KNOWN_IN_TASKS}")

    def __format__(self, spec: str) -> str:
        if spec:
            raise TypeError(f"{self.serialize()} {KNOWN_IN_TASKS}")
        return str(self)

    def _has_no_value(self, *_: Any) -> Any:
        raise TypeError(f"{self.serialize()} {KNOWN_IN_TASKS}")

    __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __len__ = __reversed__ = _has_no_value
    __setitem__ = __delitem__ = __int__ = __float__ = __index__ = __round__ = __abs__ = _has_no_value
    __neg__ = __pos__ = __invert__ = __divmod__ = __rdivmod__ = _has_no_value
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = _has_no_value
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = _has_no_value
    __and__ = __or__ = __xor__ = __rand__ = __ror__ = __rxor__ = _has_no_value

    def __str__(self) -> str:
        # A template has no slices among the arguments of a call.
        parts = [_bounds(key) if isinstance(key, slice) else key for key in self._path]
        return f"{{{{ {MACRO}({', '.join(map(repr, parts))}) }}}}"

    # Also a template when a container that holds it is formatted, as in f"{[message['id']]}".
    __repr__ = __str__

    def serialize(self) -> str:
        """What Airflow's pages show in the fields of a task before it runs."""
        return NAME + "".join(f"[{key!r}]" for key in self._path)

    def resolve(self, context: Mapping[str, Any] | Context) -> Any:
        """
        The value for the running task.

        :raises LookupError: the message has no such part.
        :raises PayloadStoreError: the payload is in the payload store, and cannot be read.
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


def _bounds(key: slice) -> tuple[Any, Any, Any]:
    return key.start, key.stop, key.step


def _is_in_function() -> bool:
    """Whether the decorated function, or a function that it calls, asks, and not Airflow or an operator."""
    frame = sys._getframe(2)
    if frame.f_globals.get("__name__", "").partition(".")[0] == "airflow":
        return False
    caller: FrameType | None = frame
    while caller is not None and caller.f_globals is not globals():
        if isinstance(caller.f_locals.get("self"), (BaseOperator, TaskGroup)):
            return False  # an argument of its constructor
        caller = caller.f_back
    return caller is not None


def _message_of_run(context: Mapping[str, Any] | Context) -> Any:
    conf = context["dag_run"].conf or {}
    # Not of the params alone: [core] dag_run_conf_overrides_params may be off.
    message = conf[NAME] if NAME in conf else context["params"][NAME]
    is_elsewhere = any(message.get(name) is not None for name in ("payload_json", "payload_object"))
    return WholeMessage(message) if is_elsewhere else message


@jinja2.pass_context
def part_in_template(context: jinja2.runtime.Context, *path: str | int | tuple[int | None, ...]) -> Any:
    """
    The message of a run, or a part of it: ``{{ workflow_message("payload", "total") }}``.

    :param path: keys, indexes, and slices as tuples of their three parts.
    """
    keys = tuple(slice(*key) if isinstance(key, tuple) else key for key in path)
    return MessagePlaceholder(keys).resolve(context.get_all())
