"""The message of a run as tasks of an ``@inbox_dag`` get it, and its placeholder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jinja2

if TYPE_CHECKING:
    from airflow.sdk import Context

NAME = "message"
"""The entry of a run's conf, and the param that has the example."""
MACRO = "workflow_message"
"""The macro of the DAG with which its templates read the message."""
NO_VALUE = "its value is known in tasks: decide in one (@task.branch), or choose messages with match="


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
