"""The message of a run as the tasks of an ``@inbox_dag`` get it, and what stands for it in its function."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import jinja2

if TYPE_CHECKING:
    from airflow.sdk import Context

NAME = "message"
"""The entry of a run's conf, and the param that has the example."""
MACRO = "workflow_message"
"""The macro of the DAG with which its templates read the message."""
KNOWN_LATER = "it is known only when a task runs"
AIRFLOW = ("airflow.", "airflow_provider_workflow.")
"""How the names of modules begin that may ask whether there is a value."""


class Message(dict[str, Any]):
    """
    A message whose payload Airflow cannot store, with the payload that the service sent.

    ``message["payload"]`` and ``message.get("payload")`` return that payload. All else shows the message as
    Airflow stores it, with ``payload`` None and the JSON string ``payload_json``: Airflow stores the
    arguments of a task, and would fail the task otherwise. Pickled, as for ``@task.virtualenv``, it is a
    plain dictionary with that payload.
    """

    _payload: Any

    def __getitem__(self, key: str) -> Any:
        if key != "payload":
            return super().__getitem__(key)
        if not hasattr(self, "_payload"):
            from airflow_provider_workflow.dispatch.payloads import payload_of

            self._payload = payload_of(dict(self))
        return self._payload

    def get(self, key: str, default: Any = None) -> Any:
        return self["payload"] if key == "payload" else super().get(key, default)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, ({**self, "payload": self["payload"]},)


def message_of(context: Mapping[str, Any] | Context) -> dict[str, Any]:
    """
    The message of a run; that of its params if it was started without one.

    :param context: of the running task.
    """
    conf = context["dag_run"].conf or {}
    # Not of the params alone: [core] dag_run_conf_overrides_params may be off.
    message: dict[str, Any] = conf[NAME] if NAME in conf else context["params"][NAME]
    return message if message.get("payload_json") is None else Message(message)


class MessagePlaceholder:
    """
    Stands for the message of a run, or a part of it, while a DAG file is parsed.

    As an argument of a task, or in a template field, it is replaced by the value when the task runs: Airflow
    calls ``resolve`` then. ``argument["payload"]["total"]`` is the part of the message at that path. In an
    f-string it becomes a Jinja template, which calls ``part_in_template``.

    While the file is parsed there is no message, so whatever depends on its value is refused: truth,
    comparison, iteration, ``in``, ``len``, arithmetic, conversion to a number, hashing, and methods. Airflow
    and constructors of operators may ask for its truth and compare it (``self.data = data or {}``).

    :param path: keys and indexes from the message to the part.
    """

    def __init__(self, path: tuple[str | int, ...] = ()) -> None:
        self._path = path
        self._name = NAME + "".join(f"[{key!r}]" for key in path)

    def __getitem__(self, key: str | int) -> MessagePlaceholder:
        if isinstance(key, bool) or not isinstance(key, (str, int)):
            raise TypeError(f"{self._name} takes a key or an index in brackets, not a {type(key).__name__}")
        return MessagePlaceholder((*self._path, key))

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(
            f"{self._name} has no {name!r} while the file is parsed, as {KNOWN_LATER}: give a task"
            f" the whole {NAME} and use {name!r} there; in the function take parts in brackets, as in"
            f' {NAME}["payload"]'
        )

    def __bool__(self) -> bool:
        self._check_who_asks()
        return True

    def __eq__(self, other: object) -> bool:
        self._check_who_asks()
        return self is other

    def __hash__(self) -> int:
        self._check_who_asks()
        return id(self)

    def __iter__(self) -> Iterator[Any]:
        if not str(sys._getframe(1).f_globals.get("__name__")).startswith("airflow.sdk.definitions."):
            self._refuse()
        # `expand` looks for outputs of tasks in its arguments.
        return iter(())

    def _check_who_asks(self) -> None:
        """Refuse, unless Airflow asks, or an object with templated fields: an operator or a notifier."""
        frame = sys._getframe(2)
        asks_in = str(frame.f_globals.get("__name__"))
        if not asks_in.startswith(AIRFLOW) and not hasattr(frame.f_locals.get("self"), "template_fields"):
            self._refuse()

    def _refuse(self, *_: Any) -> NoReturn:
        raise TypeError(
            f"{self._name} cannot be used here, as {KNOWN_LATER}: move this into a task, or use match"
        )

    def __format__(self, form: str) -> str:
        if form:
            self._refuse()
        return str(self)

    # Python would refuse most of this itself, in words that name no fix.
    __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __len__ = __contains__ = __reversed__ = __setitem__ = __delitem__ = keys = _refuse
    __int__ = __float__ = __complex__ = __index__ = __bytes__ = _refuse
    __neg__ = __pos__ = __abs__ = __invert__ = __round__ = __trunc__ = __floor__ = __ceil__ = _refuse
    __add__ = __sub__ = __mul__ = __matmul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = _refuse
    __radd__ = __rsub__ = __rmul__ = __rmatmul__ = __rtruediv__ = __rfloordiv__ = __rpow__ = _refuse
    __divmod__ = __rdivmod__ = __and__ = __or__ = __xor__ = __lshift__ = __rshift__ = _refuse
    __rand__ = __ror__ = __rxor__ = __rlshift__ = __rrshift__ = __rmod__ = _refuse

    def __str__(self) -> str:
        return f"{{{{ {MACRO}({', '.join(map(repr, self._path))}) }}}}"

    # In a string it is a template however it got there, as in f"{[message['id']]}".
    __repr__ = __str__

    def serialize(self) -> str:
        """What Airflow's pages show in the fields of a task before it runs."""
        return self._name

    def resolve(self, context: Context) -> Any:
        """
        The value for the running task.

        :raises ValueError: the part cannot be the argument of a task, as Airflow cannot store it.
        """
        return self.part_of(message_of(context))

    def part_of(self, message: dict[str, Any], *, as_text: bool = False) -> Any:
        """
        The value of this part of a message.

        :param as_text: whether Airflow stores it as a string.
        :raises LookupError: the message has no such part.
        :raises ValueError: Airflow cannot store that.
        """
        value: Any = message
        try:
            for key in self._path:
                value = value[key]
        except (LookupError, TypeError):
            raise LookupError(
                f"The {NAME} of this run has no {self._name}. Give the task the whole {NAME}, and decide in"
                " the task what to do without it"
            ) from None
        if self._path and isinstance(message, Message):
            self._check_storable(str(value) if as_text else value)
        return value

    def _check_storable(self, value: Any) -> None:
        from airflow_provider_workflow.dispatch.payloads import unstorable

        if (part := unstorable(value, self._name)) is not None:
            raise ValueError(
                f"{part}, so Airflow cannot store it as an argument of a task. Give the task the whole"
                f" {NAME}, and use {self._name} in the task"
            )


@jinja2.pass_context
def part_in_template(context: jinja2.runtime.Context, *path: str | int) -> Any:
    """
    The message of a run, or the part at a path: ``{{ workflow_message("payload", "total") }}``.

    :raises ValueError: Airflow cannot store what the template makes of the part.
    """
    from jinja2.nativetypes import NativeEnvironment

    # With render_template_as_native_obj=True a template yields the value itself.
    as_text = not isinstance(context.environment, NativeEnvironment)
    return MessagePlaceholder(path).part_of(message_of(context.get_all()), as_text=as_text)
