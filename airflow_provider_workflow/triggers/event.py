"""``WorkflowInboxEventTrigger``: puts messages into asset events, and acknowledges them once stored."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Hashable
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import conf
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider_workflow import config, observers
from airflow_provider_workflow.airflow_internals import airflow_release, needs
from airflow_provider_workflow.client import arguments
from airflow_provider_workflow.inbox_names import name_of
from airflow_provider_workflow.text import escaped
from airflow_provider_workflow.triggers.base import (
    SerializesArguments,
    queue_of_triggerers,
    type_errors_in_triggerer,
)

if TYPE_CHECKING:
    from airflow.triggers.shared_stream import SharedStreamProducer

    from airflow_provider_workflow.dispatch.routing import Matcher
    from airflow_provider_workflow.triggers.event_producer import Batch, EventMessage

log = logging.getLogger(__name__)

ALTERNATIVE = "use WorkflowInboxNoticeTrigger with WorkflowInboxDispatchOperator instead"
DEFAULT_ACK_TIMEOUT_SECONDS = 300.0
"""The default of ``[triggerer] shared_stream_ack_timeout``."""
NOT_SHARED = ("match", "per_message", "queue")
"""Arguments in which watchers that share a poller may differ."""


class WorkflowInboxEventTrigger(SerializesArguments, BaseEventTrigger):
    """
    Leases the messages of an inbox and puts them into asset events; for an ``AssetWatcher`` (Airflow 3.3).

    A message is acknowledged only after Airflow has stored an event with it for each watcher that selects
    it (docs/service.md 3.2 and 4). An event has the messages of one lease, which ``messages_of`` decodes.

    A stored event does not always start a run: it starts none while its DAG is paused, and before Airflow 3.4
    it may wait for the next event. If every message has to start a run, use ``WorkflowInboxNoticeTrigger``.

    A message may be delivered twice: the ``lease_count`` in its ``message_attributes`` is above 1 then.

    Watchers of one inbox share one poller in a triggerer if all their arguments except ``match``,
    ``per_message`` and ``queue`` are the same. A message that several of them select goes to each. With
    several triggerers use one watcher per inbox.

    A message is left to its lease, and quarantined after about five deliveries, if no running watcher selects
    it. A watcher whose DAG is paused does not run, and one whose ``match`` fails on a message does not select
    it.

    It never ends: it retries after all errors, with growing pauses. Payloads are stored unencrypted in the
    asset's events, and in the triggerer's log (at INFO, from 3.4 on at DEBUG).

    :param inbox: id or name.
    :param match: JMESPath expression over a message (``id``, ``created_at``, ``payload``,
        ``message_attributes``); None selects all messages.
    :param lease_limit: messages per lease, and so per event, 1 to 100.
    :param lease_seconds: length of a lease, up to 3600 s; more than ``[triggerer]
        shared_stream_ack_timeout`` (300 s), the time that Airflow has to store an event.
    :param min_interval: seconds between the events of two leases, above 0. Before Airflow 3.4 an event that
        follows another one within 3 s may start no run.
    :param workflow_conn_id: id of the Airflow connection.
    :param poll_interval: seconds between two polls, above 0; doubles while the inbox stays empty.
    :param max_poll_interval: maximum interval in seconds.
    :param wake_on_events: also listen to the inbox's event stream.
    :param per_message: make an event for each message (Airflow 3.4).
    :param queue: queue of triggerers that runs this trigger (Airflow 3.4; see ``[triggerer] queues_enabled``
        and ``airflow triggerer --queues``); None is Airflow's default. Give all watchers of an inbox the same
        one: they share a poller only in one triggerer.
    :raises ValueError: an argument is out of range, or the expression is invalid; the text names it. Or
        ``[workflow] payload_objectstorage_path`` is set: this trigger puts payloads into Airflow's database.
    :raises AirflowOptionalProviderFeatureException: this Airflow is older than 3.3, or, with ``queue`` or
        ``per_message``, older than 3.4.
    """

    ARGUMENTS = (
        "inbox",
        "match",
        "lease_limit",
        "lease_seconds",
        "min_interval",
        "workflow_conn_id",
        "poll_interval",
        "max_poll_interval",
        "wake_on_events",
        "per_message",
        "queue",
    )

    def __init__(
        self,
        inbox: str,
        match: str | None = None,
        lease_limit: int = 100,
        lease_seconds: int = 600,
        min_interval: float = 3,
        workflow_conn_id: str = "workflow_default",
        poll_interval: float = 5,
        max_poll_interval: float = 60,
        wake_on_events: bool = True,
        per_message: bool = False,
        queue: str | None = None,
    ) -> None:
        self.has_ended = False
        with type_errors_in_triggerer():
            if airflow_release() < (3, 3):
                raise needs(type(self).__name__, ALTERNATIVE)
            super().__init__(**queue_of_triggerers(queue, type(self).__name__))  # type: ignore[no-untyped-call, unused-ignore]
            if config.payload_objectstorage_path():
                raise ValueError(
                    f"{type(self).__name__} puts payloads into Airflow's asset events, and [workflow]"
                    f" payload_objectstorage_path keeps them out of Airflow's database: {ALTERNATIVE}"
                )
            self.queue = queue
            self.inbox = arguments.require_text("inbox", inbox)
            self.match = match
            self._matches: Matcher | None = None
            if match is not None:
                # Only DAG files with an expression pay for the import of jmespath.
                from airflow_provider_workflow.dispatch.routing import matcher

                self._matches = matcher("match", match)
            self.lease_limit = arguments.require_int("lease_limit", lease_limit, arguments.LEASE_LIMIT)
            self.lease_seconds = _check_lease_seconds(lease_seconds)
            self.min_interval = arguments.seconds("min_interval", min_interval)
            self.workflow_conn_id = arguments.require_text("workflow_conn_id", workflow_conn_id)
            self.poll_interval, self.max_poll_interval = arguments.intervals(poll_interval, max_poll_interval)
            self.wake_on_events = arguments.require_bool("wake_on_events", wake_on_events)
            self.per_message = arguments.require_bool("per_message", per_message)
            if per_message and airflow_release() < (3, 4):
                # Before 3.4, events that follow each other closely share a run, or wait for the next event.
                raise needs(f"{type(self).__name__}(per_message=True)", ALTERNATIVE, (3, 4))

    def shared_stream_key(self) -> Hashable:
        """The arguments of the poller. Watchers for which they are the same share one."""
        names = [name for name in self.ARGUMENTS if name not in NOT_SHARED]
        return ("workflow-inbox", *(getattr(self, name) for name in names))

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> SharedStreamProducer:
        """Make the poller of the watchers with one key. Airflow tells it which events were stored."""
        from airflow_provider_workflow.triggers.event_producer import InboxProducer

        return InboxProducer(cls(**kwargs))

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Batch]) -> AsyncIterator[TriggerEvent]:
        """
        Make one event of the messages that this watcher selects from a batch, or an event of each message.

        It records on the batch which messages the watcher selects, before the first event, and that Airflow
        took all events, after the last one. If the watcher ends in between, the messages are redelivered.
        """
        from airflow_provider_workflow.triggers.event_producer import event_payload

        async for batch in shared_stream:
            # In a thread, because an expression over a large payload would block the event loop.
            messages, causes = await asyncio.to_thread(self.matching, batch.messages)
            for message_id, cause in causes:
                observers.notify("rejected", inbox=self.inbox, conn_id=self.workflow_conn_id)
                log.warning(
                    "Inbox %s: message %s was rejected: %s",
                    name_of(self.inbox, self.workflow_conn_id),
                    escaped(message_id),
                    escaped(cause),
                )
            inbox_id, count = batch.lease.inbox_id, len(messages)
            batch.selected[self] = frozenset(message.id for message in messages)
            parts = [[message] for message in messages] if self.per_message else [messages]
            for part in filter(None, parts):
                yield TriggerEvent(event_payload(inbox_id, part))
            batch.emitted.add(self)
            observers.notify("emitted", inbox=inbox_id, conn_id=self.workflow_conn_id, count=count)

    async def cleanup(self) -> None:
        """Note that this watcher has ended; Airflow calls it then."""
        self.has_ended = True

    def matching(self, messages: list[EventMessage]) -> tuple[list[EventMessage], list[tuple[str, str]]]:
        """
        The messages that this watcher selects, and the id and the cause of each one on which ``match`` fails.

        It runs in a thread, where nothing can interrupt a ``match``. One that takes too much CPU time fails
        after it has ended.
        """
        if self._matches is None:
            return messages, []
        from airflow_provider_workflow.dispatch.cpu_limit import CheckTooSlowError
        from airflow_provider_workflow.dispatch.routing import UnroutableError

        selected: list[EventMessage] = []
        causes: list[tuple[str, str]] = []
        for message in messages:
            try:
                if self._matches(message.content):
                    selected.append(message)
            except (UnroutableError, CheckTooSlowError) as cause:
                causes.append((message.id, str(cause)))
        return selected, causes

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """
        Not supported: Airflow runs this trigger through its shared streams.

        :raises NotImplementedError: always.
        """
        raise NotImplementedError(f"{type(self).__name__} runs only as the trigger of an AssetWatcher")
        yield


def _check_lease_seconds(lease_seconds: int) -> int:
    arguments.require_int("lease_seconds", lease_seconds, arguments.LEASE_SECONDS)
    timeout = conf.getfloat("triggerer", "shared_stream_ack_timeout", fallback=DEFAULT_ACK_TIMEOUT_SECONDS)
    if lease_seconds <= timeout:
        raise ValueError(
            f"lease_seconds ({lease_seconds} s) must be more than [triggerer] shared_stream_ack_timeout"
            f" ({timeout:g} s): otherwise messages are redelivered while Airflow may still store their event"
        )
    return lease_seconds
