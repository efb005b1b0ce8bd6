"""
How a sensor returns messages to its DAG: it stores them, then acknowledges them.

A task that is killed returns no XCom. Messages are therefore written to the task state store, which the next
try reads, before they are acknowledged.
"""

from __future__ import annotations

import json
import logging
from collections import namedtuple
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_workflow.client.errors import (
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    WorkflowError,
)
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.dispatch.lease import HeldLease, acknowledge, try_to_release, without_lease
from airflow_provider_workflow.dispatch.payloads import Unstorable, log_replaced, storable, unstorable
from airflow_provider_workflow.dispatch.results import Counts, log_nameless, log_rejection
from airflow_provider_workflow.dispatch.routing import Routes, UnroutableError
from airflow_provider_workflow.dispatch.session import while_missing
from airflow_provider_workflow.types import Lease, Message

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)

STORE_KEY = "workflow_received"
_XComRow = namedtuple("_XComRow", "value")


@dataclass
class Receiver:
    """
    Returns the messages of a lease to the DAG.

    :param hook: sends the calls.
    :param inbox: id or name.
    :param routes: chooses the messages to return.
    :param context: of the running task.
    :param counts: counts rejected messages.
    :param working: whether messages are leased and not stored yet; an interruption releases them.
    """

    hook: WorkflowHook
    inbox: str
    routes: Routes
    context: Any
    counts: Counts = field(default_factory=Counts)
    working: bool = False

    @cached_property
    def inbox_id(self) -> str:
        return while_missing(self.inbox, lambda: self.hook.get_inbox(self.inbox))["id"]

    def stored(self) -> list[Message] | None:
        """
        The messages that an earlier try of this task stored; None if there are none.

        If that try was killed before it acknowledged them, they are acknowledged now.
        """
        text = self._store().get(STORE_KEY)
        if text is None:
            return None
        kept = json.loads(text)
        if not kept["acknowledged"]:
            self._acknowledge_stored(kept)
        log.info("Returning the %d messages that an earlier try of this task received", len(kept["messages"]))
        messages: list[Message] = kept["messages"]
        return messages

    def _acknowledge_stored(self, kept: dict[str, Any]) -> None:
        try:
            self._acknowledge(kept)
        except (NotFoundError, InvalidRequestError, ConflictError) as error:
            self._do_without_acknowledgement(kept, error)

    def _do_without_acknowledgement(self, kept: dict[str, Any], error: WorkflowError) -> None:
        # The inbox or the lease no longer exists. The stored messages must not be lost.
        log.warning("Inbox %s: the stored messages cannot be acknowledged any more: %s", self.inbox, error)
        self._keep({**kept, "acknowledged": True})

    def take(self, lease: HeldLease) -> list[Message]:
        """
        Store, read back, then acknowledge the messages of a lease.

        :return: the messages that match.
        :raises AirflowException: they could not be stored; nothing was acknowledged.
        """
        with self._released_on_fault(lease):
            messages = self._fitting(lease)
            if not messages:
                return []
            kept = {
                "inbox_id": lease.inbox_id or self.inbox_id,
                "lease_id": lease.lease_id,
                "messages": messages,
                "acknowledged": False,
            }
            # From here on the store may have the messages: released, they would reach the DAG twice.
            self.working = False
            self._keep(kept)
        try:
            self._acknowledge(kept)
        except NotFoundError as error:
            self._do_without_acknowledgement(kept, error)
        log.info("Inbox %s: received %d messages, stored and acknowledged", plain(self.inbox), len(messages))
        return messages

    def lend(self, lease: HeldLease) -> Lease | None:
        """The messages of a lease that match, with the ids that acknowledge them; None if none matches."""
        with self._released_on_fault(lease):
            messages = self._fitting(lease)
            if not messages:
                return None
            log.info(
                "Inbox %s: received %d messages, leased until %s",
                plain(self.inbox),
                len(messages),
                plain(lease.leased_until),
            )
            return {
                "inbox_id": lease.inbox_id or self.inbox_id,
                "lease_id": lease.lease_id,
                "leased_until": lease.leased_until,
                "messages": messages,
            }

    @contextmanager
    def _released_on_fault(self, lease: HeldLease) -> Iterator[None]:
        """Release the lease on an error, so that a retry does not find an empty inbox."""
        try:
            self.working = True
            yield
        except Exception:
            self._release(lease, self.hook)
            raise
        except BaseException:
            # The task is killed; on_kill must not interrupt the release.
            self.working = False
            with closing(self.hook.hurried()) as once:
                self._release(lease, once)
            raise
        finally:
            self.working = False

    def _release(self, lease: HeldLease, hook: WorkflowHook) -> None:
        ids = [message["id"] for message in lease.messages]
        try_to_release(hook, lease.inbox_id or self.inbox, lease.lease_id, ids, self.inbox)

    def _acknowledge(self, kept: dict[str, Any]) -> None:
        ids = [message["id"] for message in kept["messages"]]
        acknowledge(self.hook, kept["inbox_id"], kept["lease_id"], ids)
        self._keep({**kept, "acknowledged": True})

    def _keep(self, kept: dict[str, Any]) -> None:
        # An ASCII string: the store itself rejects some JSON values.
        text = json.dumps(kept)
        store = self._store()
        store.set(STORE_KEY, text)
        if store.get(STORE_KEY) != text:
            raise AirflowException("The task state store did not keep the messages; none was acknowledged.")

    def _store(self) -> Any:
        return self.context["task_state_store"]

    def _fitting(self, lease: HeldLease) -> list[Message]:
        """The messages that match, in a form that an XCom can store; the leases of the others expire."""
        log_nameless(self.inbox, lease, self.hook.workflow_conn_id, self.counts)
        fitting: list[Message] = []
        for leased in lease.messages:
            message = without_lease(leased)
            try:
                if not self.routes.accepts(message):
                    continue
                problem: object = unstorable(leased["id"], "its id")
            except UnroutableError as error:
                problem = error
            if problem is None:
                fitting.append(self._as_stored(message))
            else:
                self.counts.refuse(leased["id"], str(problem))
                log_rejection(self.hook, self.inbox, leased, problem)
        return fitting

    def _as_stored(self, message: dict[str, Any]) -> Message:
        """A message that an XCom returns unchanged; ``payloads.payload_of`` reads its payload either way."""
        result, replaced = storable(message)
        if not replaced and not _survives_xcom(result):
            replaced = [Unstorable("payload", "has keys that are reserved by Airflow's serialization")]
            result.update(payload=None, payload_json=json.dumps(message["payload"]))
            if not _survives_xcom(result):
                result["message_attributes"] = None
        log_replaced(self.inbox, message["id"], replaced)
        return cast("Message", result)


def _survives_xcom(message: dict[str, Any]) -> bool:
    """Whether Airflow's serialization returns the message unchanged."""
    from airflow.sdk.bases.xcom import BaseXCom

    try:
        written = json.loads(json.dumps(BaseXCom.serialize_value(message)))
        return bool(BaseXCom.deserialize_value(_XComRow(written)) == message)
    except Exception:
        # Reserved keys make Airflow build objects, which raises any exception.
        return False
