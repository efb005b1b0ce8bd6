"""The message of a run, as the tasks of an ``@inbox_dag`` function get it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import Context

NAME = "message"
"""The entry of a run's conf, and the param that has the example."""


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
