"""
Alerts: callbacks and notifiers that are called for dead letters and for quarantined messages.

A task collects the messages while it works on its inbox, and calls its callbacks at the end of that work,
when it holds no lease. A trigger calls them when it has reported quarantined messages. Each callback is
called once for all messages of an event. A process that is killed before the call loses the alert, never a
message: what happened is in the log and in the metrics as well.

A callback that fails fails nothing else. The context of a callback never contains a payload.
"""

from __future__ import annotations

import copy
import inspect
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypedDict

from airflow_provider_workflow import clock
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.dispatch import quarantine
from airflow_provider_workflow.dispatch.dead_letters import DeadLetter
from airflow_provider_workflow.metrics import name_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)

DEAD_LETTER = "dead_letter"
QUARANTINED = "quarantined"
MOST_MESSAGES = 100
"""Messages that an alert lists at most."""
LONGEST_CALL_SECONDS = 60.0
"""Timeout of a callback in a trigger."""


class AlertedMessage(TypedDict):
    """
    A message of an alert, without its payload.

    ``reason``, ``cause`` and ``run_id`` (of the dead-letter DAG) are None if it is quarantined.
    """

    id: str
    created_at: str | None
    delivery_count: int | None
    reason: str | None
    cause: str | None
    run_id: str | None


class Alert(TypedDict):
    """
    What a callback finds in ``context["workflow"]``.

    ``event`` is ``dead_letter`` or ``quarantined``, ``count`` the number of messages, of which ``messages``
    has the first 100. ``dead_letter_dag_id`` is None without a dead-letter DAG.
    """

    event: str
    inbox: str
    inbox_id: str
    conn_id: str
    count: int
    messages: list[AlertedMessage]
    dead_letter_dag_id: str | None


@dataclass(frozen=True)
class Callbacks:
    """
    The callbacks of a task; each is called with one argument, the context.

    :param dead_letter_dag_id: the dead-letter DAG, for the context.
    """

    on_dead_letter: Sequence[Callable[[Any], object]] = ()
    on_quarantined: Sequence[Callable[[Any], object]] = ()
    dead_letter_dag_id: str | None = None


@dataclass
class Alerts:
    """
    Collects the messages of a task for which its callbacks are called; a context manager, which calls them.

    They are called at the end also if the task fails, but not if it is being ended (``on_kill``,
    ``execution_timeout``).

    :param hook: its checks find quarantined messages.
    :param inbox: id or name.
    :param context: of the task.
    """

    callbacks: Callbacks
    hook: WorkflowHook
    inbox: str
    context: Context
    _found: dict[tuple[str, str], list[AlertedMessage]] = field(default_factory=dict)

    def __enter__(self) -> Alerts:
        quarantine.listen(self.hook, self._add_quarantined)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        quarantine.listen(self.hook, None)
        found, self._found = self._found, {}
        for (event, inbox_id), messages in found.items():
            callbacks = self._callbacks_of(event)
            if kind is None or issubclass(kind, Exception):
                for callback in callbacks:
                    self._call(callback, self._alert(event, inbox_id, messages))
            elif callbacks:
                log.warning(
                    "Inbox %s: on_%s is not called for %d messages, as the task is being ended",
                    plain(self.inbox),
                    event,
                    len(messages),
                )

    def add_dead_letter(self, letter: DeadLetter, run_id: str) -> None:
        """Add a message whose run of the dead-letter DAG was started."""
        self._add(
            (DEAD_LETTER, letter["inbox_id"]),
            {
                "id": letter["message_id"],
                "created_at": letter["created_at"],
                "delivery_count": letter["delivery_count"],
                "reason": letter["reason"],
                "cause": letter["cause"],
                "run_id": run_id,
            },
        )

    def _add_quarantined(self, inbox_id: str, messages: quarantine.Messages) -> None:
        for each in messages:
            self._add((QUARANTINED, inbox_id), quarantined(each))

    def _add(self, key: tuple[str, str], message: AlertedMessage) -> None:
        self._found.setdefault(key, []).append(message)

    def _callbacks_of(self, event: str) -> Sequence[Callable[[Any], object]]:
        callbacks = self.callbacks
        return callbacks.on_dead_letter if event == DEAD_LETTER else callbacks.on_quarantined

    def _alert(self, event: str, inbox_id: str, messages: list[AlertedMessage]) -> Alert:
        where = {"inbox": self.inbox, "inbox_id": inbox_id, "conn_id": self.hook.workflow_conn_id}
        return alert_of(event, messages, **where, dead_letter_dag_id=self.callbacks.dead_letter_dag_id)

    def _call(self, callback: Callable[[Any], object], alert: Alert) -> None:
        try:
            # A notifier renders its attributes in place, so that it could be used only once.
            called = copy.copy(callback) if _is_notifier(callback) else callback
            called({**self.context, "workflow": alert})
        except Exception as error:
            _log_failure(self.inbox, alert["event"], error)


def alert_of(
    event: str,
    messages: list[AlertedMessage],
    *,
    inbox: str,
    inbox_id: str,
    conn_id: str,
    dead_letter_dag_id: str | None = None,
) -> Alert:
    """
    The alert for messages of an inbox.

    :param event: ``dead_letter`` or ``quarantined``.
    """
    return {
        "event": event,
        "inbox": plain(name_of(inbox)),
        "inbox_id": plain(inbox_id),
        "conn_id": conn_id,
        "count": len(messages),
        "messages": messages[:MOST_MESSAGES],
        "dead_letter_dag_id": dead_letter_dag_id,
    }


def quarantined(message: Mapping[str, Any]) -> AlertedMessage:
    """A quarantined message of a listing, for an alert."""
    created_at = message.get("created_at")
    count = (message.get("message_attributes") or {}).get("lease_count")
    return {
        "id": plain(message["id"]),
        "created_at": plain(created_at) if isinstance(created_at, str) else None,
        "delivery_count": count if isinstance(count, int) else None,
        "reason": None,
        "cause": None,
        "run_id": None,
    }


async def call_in_trigger(
    callbacks: str, inbox: str, inbox_id: str, conn_id: str, messages: quarantine.Messages
) -> None:
    """
    Call the callbacks of a trigger for quarantined messages, without blocking its event loop. Raises nothing.

    :param callbacks: what ``options.check_trigger_callbacks`` returned.
    :param inbox: id or name.
    """
    for each in json.loads(callbacks):
        found = [quarantined(message) for message in messages]
        alert = alert_of(QUARANTINED, found, inbox=inbox, inbox_id=inbox_id, conn_id=conn_id)
        try:
            async with clock.timeout(LONGEST_CALL_SECONDS):
                await _call_path(each["path"], each["kwargs"], {"workflow": alert})
        except Exception as error:
            _log_failure(inbox, QUARANTINED, error)


async def _call_path(path: str, kwargs: dict[str, Any], context: dict[str, Any]) -> None:
    target = await _in_thread(_imported, path)
    if isinstance(target, type) and _is_notifier(target):
        notifier = await _in_thread(target, **kwargs)
        if _is_async(target):
            notifier.context = context
            await notifier
        else:
            await _in_thread(notifier, context)
        return
    given = {**kwargs, "context": context} if _takes_context(target) else kwargs
    if inspect.iscoroutinefunction(target):
        await target(**given)
    else:
        await _in_thread(target, **given)


async def _in_thread(function: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Call a function in a thread of asgiref: in other ones a triggerer cannot read connections."""
    from asgiref.sync import sync_to_async

    return await sync_to_async(function, thread_sensitive=False)(*given, **named)


def _imported(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def _is_notifier(target: object) -> bool:
    from airflow.sdk import BaseNotifier

    return issubclass(target if isinstance(target, type) else type(target), BaseNotifier)


def _is_async(notifier: type) -> bool:
    from airflow.sdk import BaseNotifier

    return bool(getattr(notifier, "async_notify", None) is not BaseNotifier.async_notify)


def _takes_context(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters
    return "context" in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())


def _log_failure(inbox: str, event: str, error: Exception) -> None:
    # Only the type: the text may contain anything, such as the URL of a webhook.
    log.warning("Inbox %s: a callback of on_%s failed: %s", plain(inbox), event, type(error).__name__)
