"""What shapes the polling of an inbox, and which pollers in a triggerer take messages from each other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from airflow_provider_workflow.triggers.sifting import Sieve

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stream:
    """
    What shapes the polling of an inbox; watchers that agree in all of it share one poller.

    The fields are arguments of ``WorkflowInboxEventTrigger``.
    """

    inbox: str
    workflow_conn_id: str
    unmatched: str
    lease_limit: int
    lease_seconds: int
    min_interval: float
    poll_interval: float
    max_poll_interval: float
    wake_on_events: bool

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Stream:
        """The stream among the arguments of a trigger."""
        return cls(**{field.name: arguments[field.name] for field in fields(cls)})

    def differences(self, other: Stream) -> list[str]:
        """The arguments in which two streams differ."""
        return [name for name, value in vars(self).items() if value != vars(other)[name]]


_polled: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str], list[Stream]]] = (
    WeakKeyDictionary()
)


def _pollers_of(stream: Stream, inbox_id: str) -> list[Stream]:
    here = _polled.setdefault(asyncio.get_running_loop(), {})
    return here.setdefault((stream.workflow_conn_id, inbox_id), [])


def begin(stream: Stream, inbox_id: str) -> None:
    """A poller begins; where another one of this event loop has the same inbox, the log says so."""
    pollers = _pollers_of(stream, inbox_id)
    for other in pollers:
        if different := stream.differences(other):
            log.warning(
                "Inbox %s has watchers in this triggerer that differ in %s: they take messages from each"
                " other. Give them the same arguments, except for match",
                stream.inbox,
                ", ".join(different),
            )
    pollers.append(stream)


def end(stream: Stream, inbox_id: str) -> None:
    """A poller that had begun ends."""
    _pollers_of(stream, inbox_id).remove(stream)


def is_alone(stream: Stream, inbox_id: str) -> bool:
    """Whether no other poller of this event loop has the same inbox."""
    return len(_pollers_of(stream, inbox_id)) <= 1


_watched: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Stream, list[Sieve]]] = WeakKeyDictionary()


def watchers(stream: Stream) -> list[Sieve]:
    """The watchers of a stream in this event loop."""
    return list(_watched.get(asyncio.get_running_loop(), {}).get(stream, ()))


def join(stream: Stream, watcher: Sieve) -> None:
    """A watcher begins: it is given all batches from now on."""
    _watched.setdefault(asyncio.get_running_loop(), {}).setdefault(stream, []).append(watcher)


def leave(stream: Stream, watcher: Sieve) -> None:
    """A watcher has ended; it may be said more than once."""
    here = _watched.get(asyncio.get_running_loop(), {})
    rest = [each for each in here.get(stream, ()) if each is not watcher]
    if rest:
        here[stream] = rest
    else:
        here.pop(stream, None)
