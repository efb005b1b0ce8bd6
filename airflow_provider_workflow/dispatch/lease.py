"""
A lease: how it is obtained, handed from a trigger to a task, acknowledged and released.

Every call here is made once for each 100 messages at most. What a task does with several leases is in
``dispatcher.py``.
"""

from __future__ import annotations

import io
import json
import logging
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from airflow_provider_workflow import clock, types
from airflow_provider_workflow.client.arguments import MESSAGE_IDS
from airflow_provider_workflow.client.errors import WorkflowError
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.dispatch import quarantine
from airflow_provider_workflow.types import FAILED, PAUSED

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)

MARGIN_SECONDS = 30.0
"""No run is started in these last seconds of a lease: its message could be redelivered meanwhile."""
HIGH_DELIVERY_COUNT = 3
"""From this delivery count on a message is logged: the service delivers it about five times."""
ASSUMED_LAST_DELIVERY = 5
"""Delivery count after which the service is assumed to quarantine a message; the number is not published."""
LARGEST_HAND_OFF = 1_000_000
"""Characters of the messages that a trigger hands off to its task at most."""

_paused: WeakKeyDictionary[WorkflowHook, dict[str, str]] = WeakKeyDictionary()
"""Why inboxes are paused, as a task has logged it."""


class TaskKilled(BaseException):
    """
    The task was killed while it held a lease. Raised by ``on_kill``, so that the lease is released.

    :param inbox: id or name.
    """

    def __init__(self, inbox: str) -> None:
        super().__init__(f"The task was ended while it worked on a lease of the inbox {inbox}")


class InboxUnusableError(AirflowFailException):
    """
    The inbox failed to initialize; only deleting and creating it again helps (docs/service.md 2.2).

    :param inbox: id or name.
    :param reason: its ``paused_reason``, or None.
    """

    def __init__(self, inbox: str, reason: str | None) -> None:
        super().__init__(
            f"Inbox {inbox!r} failed to initialize ({plain(reason or 'no reason given')})."
            " Delete it and create it again."
        )


class InboxNotActiveError(AirflowException):
    """
    The inbox is paused and holds no more messages; new events are dropped until it is resumed.

    :param inbox: id or name.
    :param reason: its ``paused_reason``, or None.
    """

    def __init__(self, inbox: str, reason: str | None) -> None:
        super().__init__(
            f"Inbox {inbox!r} is paused ({plain(reason or 'no reason given')}) and has no more messages."
            " Events are dropped until it is resumed."
        )


@dataclass(frozen=True)
class HeldLease:
    """
    A lease that is not empty.

    :param lease_id: its id, needed to acknowledge and to release.
    :param ends_at: when it expires, in epoch seconds by the clock of the leasing process.
    :param leased_until: the same time as the service states it.
    :param messages: leased messages with their payloads.
    :param left: ids of messages that did not fit into the hand-off; to be released, and leased by the task.
    :param nameless: positions, from 1, of messages without an id, which cannot be acknowledged.
    :param inbox_id: id of the inbox, or empty if it is not known; another inbox may have its name by now.
    """

    lease_id: str
    ends_at: float
    leased_until: str
    messages: list[types.LeasedMessage]
    left: list[str] = field(default_factory=list)
    nameless: list[int] = field(default_factory=list)
    inbox_id: str = ""

    @classmethod
    def of(cls, answer: types.LeaseAnswer, lease_seconds: int) -> HeldLease | None:
        """
        The lease of an answer; None for an empty one.

        :param lease_seconds: the requested length, 1 to 3600 s. It begins when the request was sent: the call
            may have waited before that, for the rate limit or for a token.
        """
        if not answer.get("lease_id") or not answer.get("results"):
            return None
        named = [_with_id(message) for message in answer["results"]]
        return cls(
            lease_id=str(answer["lease_id"]),
            ends_at=answer["sent_at"] + lease_seconds,
            leased_until=str(answer.get("leased_until") or ""),
            messages=[message for message in named if message is not None],
            nameless=[position for position, message in enumerate(named, 1) if message is None],
        )

    def seconds_left(self) -> float:
        """Seconds in which runs may still be started; negative when it is too late."""
        return self.ends_at - MARGIN_SECONDS - clock.now()

    def highest_delivery_count_first(self) -> list[types.LeasedMessage]:
        """The messages, those with the highest delivery count first."""
        return sorted(self.messages, key=delivery_count, reverse=True)

    def hand_off(self) -> str:
        """
        The lease as one ASCII JSON string, for the task that a trigger resumes; see also ``encoded``.

        A string carries any payload from trigger to task. The payload itself, as a value of the event, can
        end the whole triggerer (a NUL, a lone surrogate, an integer over 64 bits). Messages that do not fit
        into ``LARGEST_HAND_OFF``, or are nested too deep, are listed in ``left``.
        """
        texts: list[str] = []
        left: list[str] = []
        room = LARGEST_HAND_OFF
        for message in self.highest_delivery_count_first():
            try:
                texts.append(encoded(message, room))
                room -= len(texts[-1])
            except ValueError:
                left.append(message["id"])
        head = {**vars(self), "left": left}
        del head["messages"]
        return f'{json.dumps(head)[:-1]}, "messages": [{", ".join(texts)}]}}'

    @classmethod
    def from_hand_off(cls, text: str) -> HeldLease:
        """The lease that ``hand_off`` wrote."""
        return cls(**json.loads(text))


def encoded(value: Any, longest: float = math.inf) -> str:
    """
    A value as ASCII JSON, written in small steps, so that a thread that writes it lets others run.

    ``json.dumps`` does not, and takes 20 ms or more for 1 MB.

    :param longest: maximum number of characters.
    :raises ValueError: it is longer, or nested too deep.
    """
    text = io.StringIO()
    try:
        for part in json.JSONEncoder().iterencode(value):
            if text.tell() + len(part) > longest:
                raise ValueError("it is too long")
            text.write(part)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    return text.getvalue()


def _with_id(message: types.LeasedMessage) -> types.LeasedMessage | None:
    """The message with its id as a string; None where it has none."""
    found: Any = message.get("id")
    if isinstance(found, str) and found:
        return message
    # A number is an id like any other, though the service is said to send UUIDs.
    return {**message, "id": json.dumps(found)} if isinstance(found, (int, float)) else None


def slices(ids: list[str]) -> Iterator[list[str]]:
    """Ids in groups of at most 100, as one call takes; the service may lease more than it was asked for."""
    most = MESSAGE_IDS[1]
    yield from (ids[start : start + most] for start in range(0, len(ids), most))


def delivery_count(message: types.LeasedMessage) -> int:
    """The delivery count of a message, this lease included; 1 if the service does not say."""
    return known_delivery_count(message) or 1


def known_delivery_count(message: types.LeasedMessage) -> int | None:
    """The delivery count of a message, this lease included; None if the service does not say."""
    attributes = message.get("message_attributes")
    count: Any = attributes.get("lease_count") if isinstance(attributes, dict) else None
    if isinstance(count, str) and count.isascii() and count.isdigit() and len(count) < 10:
        return int(count)
    is_whole = isinstance(count, (int, float)) and not isinstance(count, bool) and count == count // 1
    return int(count) if is_whole else None


def may_be_redelivered(message: types.LeasedMessage) -> bool:
    """Whether a message may have been delivered before, so that it may have a run or a dead letter."""
    return known_delivery_count(message) != 1


def without_lease(message: types.LeasedMessage) -> dict[str, Any]:
    """The part of a message that a DAG is given: nothing of its lease."""
    part = {
        "id": message["id"],
        "created_at": message.get("created_at"),
        "payload": message.get("payload"),
        "message_attributes": message.get("message_attributes"),
    }
    # Only where the payload is too deep to decode.
    return {**part, "payload_json": message["payload_json"]} if "payload_json" in message else part


def lease_once(
    hook: WorkflowHook,
    inbox_id: str,
    count: int,
    seconds: int,
    inbox: str | None = None,
) -> HeldLease | None:
    """
    Lease messages. If there are none, check from time to time for quarantined messages.

    :param count: messages at most, 1 to 100.
    :param seconds: length of the lease, 1 to 3600 s.
    :param inbox: name of the inbox in errors and log lines; its id by default.
    :raises InboxUnusableError: the inbox failed to initialize.
    :raises InboxPausedError: the inbox is paused and has no more messages.
    """
    from airflow_provider_workflow.client.errors import InboxPausedError

    try:
        answer = hook.lease_messages(inbox_id, count, seconds)
    except InboxPausedError:
        quarantine.check(hook, inbox or inbox_id)
        raise
    attributes = answer.get("inbox_attributes") or {}
    if attributes.get("status") != PAUSED:
        _log_resumed(hook, inbox or inbox_id)
    if attributes.get("status") == FAILED:
        raise InboxUnusableError(inbox or inbox_id, attributes.get("paused_reason"))
    lease = HeldLease.of(answer, seconds)
    if lease is None:
        quarantine.check(hook, inbox or inbox_id)
    return lease


def log_paused(hook: WorkflowHook, inbox: str, reason: str) -> None:
    """Log that an inbox is paused: once in a task for each reason, until it is resumed."""
    said = _paused.setdefault(hook, {})
    if said.get(inbox) != reason:
        log.warning("Inbox %s is paused: %s", inbox, plain(reason))
    said[inbox] = reason


def _log_resumed(hook: WorkflowHook, inbox: str) -> None:
    if hook in _paused and _paused[hook].pop(inbox, None) is not None:
        log.info("Inbox %s is no longer paused", inbox)


def acknowledge(
    hook: WorkflowHook, inbox: str, lease_id: str, ids: list[str], name: str | None = None
) -> int:
    """
    Acknowledge messages of a lease, up to 100 in each call.

    A lease that has expired is no error: its messages are redelivered, and their runs are found.

    :param inbox: id or name.
    :param name: name of the inbox in log lines; ``inbox`` by default.
    :return: how many were acknowledged.
    :raises WorkflowError: a call failed; the calls after it were not made.
    """
    count = 0
    expired = "a lease expired before its acknowledgement; its messages are redelivered"
    for given, done in _in_slices(hook.acknowledge_messages, inbox, lease_id, ids, name or inbox, expired):
        count += done
        if done < given:
            log.info(
                "Inbox %s: %d of %d messages were acknowledged; the others are redelivered",
                name or inbox,
                done,
                given,
            )
    return count


def release(hook: WorkflowHook, inbox: str, lease_id: str, ids: list[str], name: str | None = None) -> int:
    """
    Release messages of a lease, up to 100 in each call; a lease that has expired is no error.

    :param inbox: id or name.
    :param name: name of the inbox in log lines; ``inbox`` by default.
    :return: how many were released.
    :raises WorkflowError: a call failed; the calls after it were not made.
    """
    expired = "a lease expired before its release"
    return sum(
        done for _, done in _in_slices(hook.release_messages, inbox, lease_id, ids, name or inbox, expired)
    )


def _in_slices(
    call: Callable[[str, str, list[str]], types.Acknowledged | types.Released],
    inbox: str,
    lease_id: str,
    ids: list[str],
    name: str,
    expired: str,
) -> Iterator[tuple[int, int]]:
    """
    Make a call for each slice of the ids; none after the lease has expired.

    :param expired: logged if it has.
    :return: for each call the number of messages that it was given, and the number in its answer.
    """
    from airflow_provider_workflow.client.errors import LeaseExpiredError

    for some in slices(ids):
        try:
            answer = call(inbox, lease_id, some)
        except LeaseExpiredError:
            log.info("Inbox %s: %s", name, expired)
            return
        yield len(some), len(answer.get("results") or [])


def try_to_release(
    hook: WorkflowHook, inbox: str, lease_id: str, ids: list[str], name: str | None = None
) -> None:
    """Release messages; if that fails, the lease expires instead."""
    try:
        release(hook, inbox, lease_id, ids, name)
    except WorkflowError as error:
        log.warning(
            "Inbox %s: %d messages are redelivered when their lease expires (%s)",
            name or inbox,
            len(ids),
            error,
        )


@dataclass
class Acknowledgements:
    """
    Acknowledges the messages that have their run or their dead letter.

    Runs do not depend on acknowledgements, so a failure stops nothing: messages that are not acknowledged are
    redelivered, and find their runs.

    :param inbox: id or name, for log lines.
    :param error: of the latest acknowledgement, if it failed.
    """

    inbox: str
    error: WorkflowError | None = None
    _finished: dict[str, tuple[HeldLease, list[str]]] = field(default_factory=dict)

    def add(self, lease: HeldLease, message_id: str) -> None:
        """A message may be acknowledged."""
        self._finished.setdefault(lease.lease_id, (lease, []))[1].append(message_id)

    def send(self, hook: WorkflowHook, *, at_the_end: bool = False) -> None:
        """
        Acknowledge all of them; after a failure nothing is sent until the end of the drain.

        :param at_the_end: whether this is the last time.
        """
        if self.error is not None and not at_the_end:
            return
        self.error = None
        for lease_id, (lease, message_ids) in list(self._finished.items()):
            try:
                acknowledge(hook, lease.inbox_id, lease_id, message_ids, self.inbox)
            except WorkflowError as error:
                self.error = error
                log.warning(
                    "Inbox %s: the acknowledgement of %d messages failed; they have their runs, and are"
                    " redelivered unless a later acknowledgement succeeds: %s",
                    self.inbox,
                    len(message_ids),
                    error,
                )
                return
            del self._finished[lease_id]
