"""
How a sensor returns messages to its DAG: it stores them, then acknowledges them.

A task that is killed returns no XCom. Messages are therefore written to the task state store, which the next
try reads, before they are acknowledged.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_workflow import observers
from airflow_provider_workflow.client import tolerant_json
from airflow_provider_workflow.client.errors import (
    ConflictError,
    InvalidRequestError,
    LeaseExpiredError,
    NotFoundError,
)
from airflow_provider_workflow.dispatch.cpu_limit import CheckTooSlowError
from airflow_provider_workflow.dispatch.delivery import Delivery
from airflow_provider_workflow.dispatch.holding import TaskLife, holding
from airflow_provider_workflow.dispatch.lease import HeldLease
from airflow_provider_workflow.dispatch.payload_store import PayloadStore
from airflow_provider_workflow.dispatch.payloads import storable, why_unstorable
from airflow_provider_workflow.dispatch.results import Counts
from airflow_provider_workflow.dispatch.routing import Routes, UnroutableError
from airflow_provider_workflow.inbox_names import name_of
from airflow_provider_workflow.text import counted, escaped
from airflow_provider_workflow.types import Lease, Message

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)

STORE_KEY = "workflow_received"


@dataclass
class Receiver:
    """
    Returns the messages of a lease to the DAG.

    :param hook: sends the calls.
    :param inbox: id or name.
    :param routes: chooses the messages to return.
    :param context: of the running task.
    :param counts: counts rejected messages.
    :param task: whether the task was killed.
    :param store: for payloads that are not in what the sensor returns; None if all are.
    """

    hook: WorkflowHook
    inbox: str
    routes: Routes
    context: Any
    counts: Counts = field(default_factory=Counts)
    task: TaskLife = field(default_factory=TaskLife)
    store: PayloadStore | None = None

    @property
    def _name(self) -> str:
        return name_of(self.inbox, self.hook.workflow_conn_id)

    def stored(self) -> list[Message] | None:
        """
        The messages that an earlier try of this task stored; None if there are none.

        If that try was killed before it acknowledged them, they are acknowledged now.
        """
        text = self.context["task_state_store"].get(STORE_KEY)
        if text is None:
            return None
        record = tolerant_json.decode(text)
        if not record["acknowledged"]:
            self._acknowledge(record)
        messages: list[Message] = record["messages"]
        text = "Inbox %s: returning %s that an earlier try of this task received"
        log.info(text, self._name, counted(len(messages), "message"))
        return messages

    def take(self, lease: HeldLease) -> list[Message]:
        """
        Store, read back, then acknowledge the messages of a lease.

        :return: the messages that match.
        :raises AirflowException: they could not be stored; nothing was acknowledged.
        """
        lent = self._matching(lease)
        if lent is None:
            return []
        messages, record = lent["messages"], {**lent, "acknowledged": False}
        # From here on a retry may find the messages in the store, so a task that is killed keeps its lease.
        try:
            self._store(record)
        except Exception:
            self.context["task_state_store"].delete(STORE_KEY)
            lease.release(self.hook, lease.message_ids)
            raise
        self._acknowledge(record)
        text = "Inbox %s: received %s, stored and acknowledged"
        log.info(text, self._name, counted(len(messages), "message"))
        return messages

    def lend(self, lease: HeldLease) -> Lease | None:
        """The messages of a lease that match, with the ids that acknowledge them; None if none matches."""
        lent = self._matching(lease)
        if lent is not None:
            log.info(
                "Inbox %s: received %s, leased until %s",
                self._name,
                counted(len(lent["messages"]), "message"),
                escaped(lease.leased_until),
            )
        return lent

    def _acknowledge(self, record: dict[str, Any]) -> None:
        """
        Acknowledge stored messages, and store that this is done.

        If the inbox or the lease no longer exists, they are returned without.
        """
        ids = [message["id"] for message in record["messages"]]
        try:
            self.hook.acknowledge_messages(record["inbox_id"], record["lease_id"], ids)
        except (ConflictError, InvalidRequestError, LeaseExpiredError, NotFoundError) as error:
            log.warning(
                "Inbox %s: the stored messages cannot be acknowledged any more: %s",
                self._name,
                error,
            )
        with suppress(Exception):  # the next try acknowledges them again, which has no effect
            self._store({**record, "acknowledged": True})

    def _store(self, record: dict[str, Any]) -> None:
        # An ASCII string: the store itself rejects some JSON values.
        text = json.dumps(record)
        store = self.context["task_state_store"]
        store.set(STORE_KEY, text)
        if store.get(STORE_KEY) != text:
            raise AirflowException("The task state store did not keep the messages; none was acknowledged.")

    def _matching(self, lease: HeldLease) -> Lease | None:
        """
        The messages that match, in a form that an XCom can store; the others are left to their leases.

        Messages for which slow checks leave no time are released.
        """
        messages: list[Message] = []
        judged: list[str] = []
        with holding(lease, self.hook, self.task) as unsettled:
            for delivery in lease.deliveries:
                message, is_late = self._judge(delivery, lease)
                judged.append(delivery.id)
                messages += [] if message is None else [message]
                if is_late:
                    break
            for message_id in judged:
                unsettled.pop(message_id, None)
            if unsettled:
                text = "Inbox %s: slow checks left no time for %d of %s; the rest is released"
                leased = counted(len(lease.deliveries), "leased message")
                log.warning(text, self._name, len(unsettled), leased)
        if not messages:
            return None
        return {
            "inbox_id": lease.inbox_id,
            "inbox_name": self._name,
            "lease_id": lease.lease_id,
            "leased_until": lease.leased_until,
            "messages": messages,
        }

    def _judge(self, delivery: Delivery, lease: HeldLease) -> tuple[Message | None, bool]:
        """
        A message if it can be returned and matches, and whether judging it took up the lease.

        :raises PayloadStoreError: its payload cannot be written.
        """
        is_late = False
        try:
            if not self.routes.accepts(delivery.message):
                return None, False
            problem = why_unstorable(delivery.id, "its id")
        except (UnroutableError, CheckTooSlowError) as error:
            problem = str(error)
            is_late = isinstance(error, CheckTooSlowError) and lease.seconds_left() <= 0
        if problem is None:
            content = delivery.message
            if self.store is not None:
                content = self.store.with_reference(delivery.inbox_id, content)
            return cast("Message", storable(content, inbox=self._name, in_xcom=True)), False
        self.counts.reject(delivery.id, problem)
        observers.notify("rejected", inbox=self.inbox, conn_id=self.hook.workflow_conn_id)
        log.warning("Inbox %s: message %s was rejected: %s", self._name, escaped(delivery.id), problem)
        return None, is_late
