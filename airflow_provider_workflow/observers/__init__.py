"""
Observers are told what happens to the messages of inboxes: metrics, spans of OpenTelemetry, and your own.

An observer is a function that is called with each :class:`Event`; ``[workflow] observers`` names those of
users, which a process reads and imports once. An observer cannot fail a task: what it raises is logged, once
in a process for each type of error. It must not block, because it is called in event loops too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pkgutil import resolve_name
from typing import Any

from airflow_provider_workflow import clock, config
from airflow_provider_workflow.airflow_internals import airflow_release
from airflow_provider_workflow.inbox_names import name_of

log = logging.getLogger(__name__)

OWN = (f"{__name__}.metrics.send_metrics", f"{__name__}.tracing.observe")
"""The provider's own observers. They import this module, so they are named by their paths."""
CURRENT_CONTEXT = f"{__name__}.tracing.current_context"
AGE = "oldest_message_age"
"""Fact of a lease: seconds since the oldest of its messages was created; 0 if there is none."""
ACTIVE = "active"
"""Fact of a source: 0 while a watcher finds it paused by the service or unusable, else 1."""
_warned: set[tuple[str, type[BaseException]]] = set()


@dataclass(frozen=True)
class Event:
    """
    Something that happened to messages of an inbox. It has ids, names and numbers, and never a payload.

    :param what: what is counted, such as ``leased`` or ``started`` (``docs/metrics.md``); ``start_run`` or
        ``process`` for an attempt; ``source`` for the state of an inbox.
    :param inbox: name of the inbox, or its id if this process does not know the name.
    :param conn_id: id of the Airflow connection.
    :param count: number of messages that are counted; 0 for an attempt, and for a call that failed or had no
        effect.
    :param began_at: when an attempt or a call began, in epoch seconds.
    :param message_ids: its messages.
    :param lease_id: their lease, where it is known.
    :param error: what it failed with. Its text may quote a message.
    :param trace_context: that of its message, in W3C's form.
    :param facts: more: ``dag_id``, ``run_id``, ``outcome``, ``server.address`` ...
    """

    what: str
    inbox: str
    conn_id: str
    count: int = 1
    began_at: float = 0.0
    message_ids: Sequence[str] = ()
    lease_id: str | None = None
    error: BaseException | None = None
    trace_context: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


def notify(what: str, *, inbox: str, conn_id: str, count: int = 1, **more: Any) -> None:
    """
    Tell all observers that something happened.

    :param inbox: id or name.
    :param count: nothing is told for 0, unless ``began_at`` is given.
    :param more: the other fields of the ``Event``.
    """
    if count < 1 and "began_at" not in more:
        return
    event = Event(what, name_of(inbox, conn_id), conn_id, count, **more)
    for path, observe in _observers():
        try:
            observe(event)
        except Exception as error:
            _warn(path, error)


@cache
def _observers() -> tuple[tuple[str, Callable[[Event], object]], ...]:
    """The observers of this process, each with its path. One that cannot be imported is left out."""
    paths = list(OWN)
    try:
        paths += config.observers()
    except Exception as error:  # whatever Airflow's configuration raises for a value
        _warn("[workflow] observers", error)
    observers = []
    for path in paths:
        try:
            observers.append((path, resolve_name(path)))
        except Exception as error:
            _warn(path, error)
    return tuple(observers)


@contextmanager
def attempt(what: str, *, facts: dict[str, Any], **more: Any) -> Iterator[None]:
    """
    Tell all observers of an attempt when it is over, with its error if it failed.

    :param facts: about it; further ones may be added meanwhile.
    :param more: see ``notify``.
    """
    began_at, error = clock.now(), None
    try:
        yield
    except BaseException as failure:
        error = failure
        raise
    finally:
        notify(what, count=0, began_at=began_at, facts=facts, error=error, **more)


def trace_context() -> str | None:
    """The trace context of this task, in W3C's form; None without spans, or if Airflow cannot pass it on."""
    try:
        if airflow_release() < (3, 4) or not config.traces():
            return None
        return str(resolve_name(CURRENT_CONTEXT)()) or None
    except Exception as error:
        _warn(CURRENT_CONTEXT, error)
        return None


def _warn(observer: str, error: BaseException) -> None:
    """
    Log that an observer failed, without the text of the error, which may quote a message.

    :param observer: path of the observer.
    """
    key = observer, type(error)
    if key not in _warned:
        _warned.add(key)
        log.warning("The observer %s failed: %s", observer, type(error).__name__)
