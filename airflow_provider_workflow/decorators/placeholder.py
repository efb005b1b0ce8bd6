"""The argument of a function with ``@inbox_dag``: a placeholder that each task replaces by its message."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import jinja2

from airflow_provider_workflow.decorators.message import NAME, Message, message_of

if TYPE_CHECKING:
    from types import FrameType

    from airflow.sdk import Context

MACRO = "workflow_message"
"""The macro of the DAG with which its templates read the message."""
KNOWN_LATER = "it is known only when a task runs"
AIRFLOW = ("airflow.", "airflow_provider_workflow.")
"""How the names of modules begin that may ask whether there is a value."""


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
        if not _asks_for_airflow(sys._getframe(1)):
            self._refuse()
        return True

    def __eq__(self, other: object) -> bool:
        if not _asks_for_airflow(sys._getframe(1)):
            self._refuse()
        return self is other

    def __hash__(self) -> int:
        if not _asks_for_airflow(sys._getframe(1)):
            self._refuse()
        return id(self)

    def __iter__(self) -> Iterator[Any]:
        if not str(sys._getframe(1).f_globals.get("__name__")).startswith("airflow.sdk.definitions."):
            self._refuse()
        # `expand` looks for outputs of tasks in its arguments.
        return iter(())

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
        return self.part_of(message_of(context), stored_as=_itself)

    def part_of(self, message: dict[str, Any], stored_as: Callable[[Any], Any]) -> Any:
        """
        The value of this part of a message.

        :param stored_as: makes of the value what Airflow stores: the value itself, or a template's string.
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
            self._check_storable(stored_as(value))
        return value

    def _check_storable(self, value: Any) -> None:
        from airflow_provider_workflow.dispatch.payloads import unstorable

        if (part := unstorable(value, self._name)) is not None:
            raise ValueError(
                f"{part}, so Airflow cannot store it as an argument of a task. Give the task the whole"
                f" {NAME}, and use {self._name} in the task"
            )


def _itself(value: Any) -> Any:
    return value


@jinja2.pass_context
def part_in_template(context: jinja2.runtime.Context, *path: str | int) -> Any:
    """
    The message of a run, or the part at a path: ``{{ workflow_message("payload", "total") }}``.

    :raises ValueError: Airflow cannot store what the template makes of the part.
    """
    from jinja2.nativetypes import NativeEnvironment

    # With render_template_as_native_obj=True a template yields the value itself.
    is_native = isinstance(context.environment, NativeEnvironment)
    return MessagePlaceholder(path).part_of(
        message_of(context.get_all()), stored_as=_itself if is_native else str
    )


def _asks_for_airflow(frame: FrameType) -> bool:
    """Whether Airflow asks, or an object with templated fields: an operator or a notifier."""
    asks_in: str = frame.f_globals.get("__name__", "")
    return asks_in.startswith(AIRFLOW) or hasattr(frame.f_locals.get("self"), "template_fields")
