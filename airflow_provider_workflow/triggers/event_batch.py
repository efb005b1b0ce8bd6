"""
What an asset event with messages is made of: leased messages, in batches, and what watchers select of them.

A raw payload in an event can end the triggerer (a NUL, a lone surrogate, an integer over 64 bits), and a
database reorders its keys. Messages are therefore encoded as one ASCII string, which ``assets.messages_of``
decodes.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain
from typing import Any, NamedTuple

from airflow_provider_workflow import types
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.dispatch.lease import HeldLease, encoded, without_lease

LARGEST_EVENT = 1_000_000
"""Maximum characters of the messages in one event; a longer message has an event of its own."""


@dataclass(frozen=True)
class Stream:
    """The arguments of event triggers that shape their polling; watchers with equal ones share a poller."""

    inbox: str
    workflow_conn_id: str
    lease_limit: int
    lease_seconds: int
    min_interval: float
    poll_interval: float
    max_poll_interval: float
    wake_on_events: bool

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Stream:
        """Make a stream from the arguments of a trigger."""
        return cls(**{field.name: arguments[field.name] for field in fields(cls)})


class EventMessage(NamedTuple):
    """
    A leased message, encoded for events.

    :param content: ``id``, ``created_at``, ``payload``, ``message_attributes``.
    :param text: the same as ASCII JSON.
    """

    id: str
    content: dict[str, Any]
    text: str


@dataclass(eq=False)
class Selection:
    """
    What a watcher selected from a batch.

    :param ids: of the messages in its events.
    :param causes: why it rejects messages, by id.
    :param ended: set when Airflow has ended the watcher.
    :param emitted: whether Airflow took all of its events: each ``yield`` has returned.
    """

    ids: frozenset[str]
    causes: Mapping[str, str]
    ended: asyncio.Event
    emitted: bool = False


@dataclass(eq=False)
class Batch:
    """
    The messages of a lease, or a part of them, that Airflow passes to all watchers of an inbox.

    :param ids: of the messages that are neither acknowledged nor released, nor left to their lease.
    :param selections: of the watchers.
    :param is_offered: whether Airflow has it.
    :param stored: ids of the messages that may be acknowledged.
    :param acknowledge_from: from then on, in monotonic seconds.
    """

    lease: HeldLease
    messages: list[EventMessage]
    ids: list[str]
    selections: list[Selection] = field(default_factory=list)
    is_offered: bool = False
    stored: list[str] = field(default_factory=list)
    acknowledge_from: float = math.inf

    def report(self, acked: int, failed: int, rejected: int) -> tuple[list[str], list[str]]:
        """
        The ids of messages in stored events, and of those that no watcher selects; others are redelivered.

        :param acked: number of watchers whose events Airflow reports as stored.
        :param failed: number of watchers that Airflow reports as failed.
        :param rejected: number of watchers that select no message and reject some.
        """
        stored: list[str] = []
        unmatched: list[str] = []
        if failed or not acked + rejected or len(self.selections) < acked + rejected:
            return stored, unmatched
        rejected_ids = set(chain.from_iterable(selection.causes for selection in self.selections))
        for message in self.messages:
            selecting = [selection for selection in self.selections if message.id in selection.ids]
            if message.id in rejected_ids:
                continue
            if not selecting:
                unmatched.append(message.id)
            elif all(selection.emitted for selection in selecting):
                stored.append(message.id)
        return stored, unmatched

    def holds_no_longer(self, ids: Collection[str]) -> None:
        """Record that messages were acknowledged or released, or are left to their lease."""
        self.ids = [message_id for message_id in self.ids if message_id not in ids]

    def watchers_remain(self) -> bool:
        """Whether all watchers that selected messages are still running."""
        return not any(selection.ended.is_set() for selection in self.selections if selection.ids)


def encode(messages: Sequence[types.LeasedMessage]) -> tuple[list[EventMessage], dict[str, str]]:
    """The messages, encoded, and why others cannot be encoded, by id. It takes long: see ``encoded``."""
    event_messages: list[EventMessage] = []
    causes: dict[str, str] = {}
    for message in messages:
        content = without_lease(message)
        try:
            event_messages.append(EventMessage(message["id"], content, encoded(content)))
        except ValueError as problem:
            causes[message["id"]] = str(problem)
    return event_messages, causes


def event_payload(inbox_id: str, messages: Sequence[EventMessage]) -> dict[str, Any]:
    """The payload of an event; ``messages_of`` decodes it."""
    text = ", ".join(message.text for message in messages)
    return {"inbox_id": plain(inbox_id), "count": len(messages), "messages": f"[{text}]"}


def parts_of(messages: Sequence[EventMessage]) -> Iterator[list[EventMessage]]:
    """Split messages into lists that fit an event."""
    part: list[EventMessage] = []
    size = 0
    for message in messages:
        if part and size + len(message.text) > LARGEST_EVENT:
            yield part
            part, size = [], 0
        part.append(message)
        size += len(message.text)
    if part:
        yield part
