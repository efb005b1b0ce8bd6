"""The argument of a function with ``@inbox_dag``: a placeholder that each task replaces by its message."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import jinja2

if TYPE_CHECKING:
    from airflow.sdk import Context

NAME = "message"
"""The entry of a run's conf, and the param that has the example."""
MACRO = "workflow_message"
"""The macro of the DAG with which its templates read the message."""


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


class MessageArgument:
    """
    Stands for the message of a run, or a part of it, while a DAG file is parsed.

    As an argument of a task, or in a template field, it is replaced by the value when the task runs: Airflow
    calls ``resolve`` then. ``argument["payload"]["total"]`` is the part of the message at that path. In an
    f-string it becomes a Jinja template, which calls ``part_in_template``.

    :param path: keys and indexes from the message to the part.
    """

    def __init__(self, path: tuple[str | int, ...] = ()) -> None:
        self._path = path

    def __getitem__(self, key: str | int) -> MessageArgument:
        if isinstance(key, bool) or not isinstance(key, (str, int)):
            raise TypeError(f"{self!r} takes a key or an index in brackets, not a {type(key).__name__}")
        return MessageArgument((*self._path, key))

    # Python would iterate by __getitem__, without end.
    __iter__ = None
    __contains__ = None

    def __repr__(self) -> str:
        return NAME + "".join(f"[{key!r}]" for key in self._path)

    def __str__(self) -> str:
        return f"{{{{ {MACRO}({', '.join(map(repr, self._path))}) }}}}"

    def serialize(self) -> str:
        """What Airflow's pages show in the fields of a task before it runs."""
        return repr(self)

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
                f"The {NAME} of this run has no {self!r}. Give the task the whole {NAME}, and decide in the"
                " task what to do without it"
            ) from None
        if self._path and isinstance(message, Message):
            self._check_storable(stored_as(value))
        return value

    def _check_storable(self, value: Any) -> None:
        from airflow_provider_workflow.dispatch.payloads import unstorable

        if (part := unstorable(value, repr(self))) is not None:
            raise ValueError(
                f"{part}, so Airflow cannot store it as an argument of a task. Give the task the whole"
                f" {NAME}, and use {self!r} in the task"
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
    return MessageArgument(path).part_of(
        message_of(context.get_all()), stored_as=_itself if is_native else str
    )


def message_of(context: Mapping[str, Any] | Context) -> dict[str, Any]:
    """
    The message of a run; that of its params if it was started without one.

    :param context: of the running task.
    """
    conf = context["dag_run"].conf or {}
    # Not of the params alone: [core] dag_run_conf_overrides_params may be off.
    message: dict[str, Any] = conf[NAME] if NAME in conf else context["params"][NAME]
    return message if message.get("payload_json") is None else Message(message)
