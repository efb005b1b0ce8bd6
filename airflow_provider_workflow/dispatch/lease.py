"""A lease in the hands of a task or trigger: its messages, and how long it may be worked on."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_workflow import clock
from airflow_provider_workflow.client import types
from airflow_provider_workflow.client.arguments import MESSAGE_IDS
from airflow_provider_workflow.client.json_steps import in_slices

MARGIN_SECONDS = 30.0
"""No run is started this close to the end of a lease: its message could come again to somebody else."""
PRECIOUS_LEASE = 3
"""From this lease on a message is dispatched first and alone."""
ASSUMED_LAST_LEASE = 5
"""Leases that a message has before the service quarantines it; the number is not published."""
LARGEST_HAND_OVER = 10_000_000
"""Bytes of a lease that cross from a trigger to its task at most."""
SLICE = 16_000
"""Bytes of a lease that are written before an event loop may do something else."""


@dataclass(frozen=True)
class HeldLease:
    """
    A lease that is not empty.

    :param lease_id: what acknowledges and releases it.
    :param ends_at: epoch seconds by the clock of whoever leased; other clocks may differ.
    :param leased_until: the same moment as the service states it.
    :param messages: leased messages with their payloads.
    :param left: ids of messages that were too much for the hand-over; to be released.
    :param nameless: positions, from 1, of messages without an id: nothing can be done with them.
    :param inbox_id: the inbox that it was made at, where that is known; another may have its name by now.
    """

    lease_id: str
    ends_at: float
    leased_until: str
    messages: list[types.LeasedMessage]
    left: list[str] = field(default_factory=list)
    nameless: list[int] = field(default_factory=list)
    inbox_id: str = ""

    @classmethod
    def of(
        cls, answer: types.Lease, asked_at: float, lease_seconds: int, attempt_seconds: float = math.inf
    ) -> HeldLease | None:
        """
        The lease of an answer; None for an empty one.

        :param asked_at: epoch seconds before the call was made.
        :param lease_seconds: what was asked for, 1 to 3600 s.
        :param attempt_seconds: how long one attempt takes at most. A call may wait at a rate gate, or for
            a token, before the attempt that leases; that time is not taken off the lease.
        """
        if not answer.get("lease_id") or not answer.get("results"):
            return None
        named = [_with_id(message) for message in answer["results"]]
        return cls(
            lease_id=str(answer["lease_id"]),
            ends_at=max(asked_at, clock.now() - attempt_seconds) + lease_seconds,
            leased_until=str(answer.get("leased_until") or ""),
            messages=[message for message in named if message is not None],
            nameless=[position for position, message in enumerate(named, 1) if message is None],
        )

    def seconds_left(self) -> float:
        """Seconds in which it may still be worked on; negative once it is too late."""
        return self.ends_at - MARGIN_SECONDS - clock.now()

    def most_precious_first(self) -> list[types.LeasedMessage]:
        """The messages, those that have used up most of their leases first."""
        return sorted(self.messages, key=lease_count, reverse=True)

    def handing_over(self) -> Iterator[str]:
        """
        The lease as one ASCII text, for the task that a trigger resumes.

        An empty text comes before each slice of work but the first, as a large lease takes long (10 to 25 ms
        per MB) and an event loop has other things to do; then the text.

        A text crosses from trigger to task with any payload in it; the payload itself, as the value
        of an event, can end the whole triggerer (a NUL, a lone surrogate, an integer over 64 bits).
        What is too much for one text, or too deep for any, stays behind, named in ``left``.
        """
        kept: list[str] = []
        left: list[str] = []
        size = unpaused = 0
        for message in self.most_precious_first():
            parts: list[str] = []
            try:
                for part in in_slices(message) if size < LARGEST_HAND_OVER else ():
                    # Each part of a large message is the work of half a millisecond.
                    if parts or unpaused + len(part) > SLICE:
                        yield ""
                        unpaused = 0
                    parts.append(part)
                    unpaused += len(part)
            except RecursionError:
                parts.clear()
            text = "".join(parts)
            if not text or (kept and size + len(text) > LARGEST_HAND_OVER):
                left.append(message["id"])
            else:
                kept.append(text)
                size += len(text)
        head = {**vars(self), "left": left}
        del head["messages"]
        yield f'{json.dumps(head)[:-1]}, "messages": [{", ".join(kept)}]}}'

    @classmethod
    def taken_over(cls, text: str) -> HeldLease:
        """The lease that ``handing_over`` wrote."""
        return cls(**json.loads(text))


def _with_id(message: types.LeasedMessage) -> types.LeasedMessage | None:
    """The message with its id as a string; None where it has none."""
    found: Any = message.get("id")
    if isinstance(found, str) and found:
        return message
    # A number is an id like any other, though the service is said to send UUIDs.
    return {**message, "id": json.dumps(found)} if isinstance(found, (int, float)) else None


def slices(ids: list[str]) -> Iterator[list[str]]:
    """Ids in the numbers that one call takes, 100 at most; a lease of more is the service's own doing."""
    most = MESSAGE_IDS[1]
    yield from (ids[start : start + most] for start in range(0, len(ids), most))


def lease_count(message: types.LeasedMessage) -> int:
    """How often a message was leased, this lease included; 1 where the service does not say."""
    count = (message.get("message_attributes") or {}).get("lease_count")
    return count if isinstance(count, int) and not isinstance(count, bool) else 1


def for_people(message: types.LeasedMessage) -> dict[str, Any]:
    """What a DAG sees of a message: nothing of its lease."""
    return {
        "id": message["id"],
        "created_at": message.get("created_at"),
        "payload": message.get("payload"),
        "message_attributes": message.get("message_attributes"),
    }
