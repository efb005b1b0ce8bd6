"""
Message, task state store, acknowledgement: how a sensor returns messages without losing any.

An XCom is gone when its task is killed, so acknowledged messages have to be somewhere that survives it.
"""

from __future__ import annotations

import json
import logging
from collections import namedtuple
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypedDict

from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_workflow import values
from airflow_provider_workflow.leases import HeldLease, for_people
from airflow_provider_workflow.leasing import acknowledge, note_refusal, release
from airflow_provider_workflow.routing import Routes, UnroutableError
from airflow_provider_workflow.run_faults import of_everything
from airflow_provider_workflow.tally import Tally

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)

STORE_KEY = "workflow_received"
SCRATCH_KEY = "workflow_check"
_XComRow = namedtuple("_XComRow", "value")


class LeasedMessages(TypedDict):
    """What a sensor with ``acknowledge="manual"`` returns, for ``WorkflowAcknowledgeOperator``."""

    inbox_id: str
    lease_id: str
    leased_until: str
    messages: list[dict[str, Any]]


@dataclass
class Receiver:
    """
    Hands the messages of a lease to the DAG.

    :param hook: talks to the service.
    :param inbox: id or name.
    :param routes: which messages are wanted.
    :param context: of the running task.
    :param tally: counts what is refused.
    """

    hook: WorkflowHook
    inbox: str
    routes: Routes
    context: Any
    tally: Tally = field(default_factory=Tally)

    @cached_property
    def inbox_id(self) -> str:
        return self.hook.get_inbox(self.inbox)["id"]

    def stored(self) -> list[dict[str, Any]] | None:
        """
        What an earlier try of this task received, acknowledged by now; None where there is nothing.

        Where the earlier try was killed before its acknowledgement, that is made up for.
        """
        text = self._store().get(STORE_KEY)
        if text is None:
            return None
        kept = json.loads(text)
        if not kept["acknowledged"]:
            self._acknowledge(kept)
        log.info("Returning the %d messages that an earlier try of this task received", len(kept["messages"]))
        messages: list[dict[str, Any]] = kept["messages"]
        return messages

    def take(self, lease: HeldLease) -> list[dict[str, Any]]:
        """
        Store, read back, then acknowledge the messages of a lease.

        :return: the messages; none where none of them is wanted.
        :raises AirflowException: they could not be stored; nothing was acknowledged.
        """
        with self._released_on_fault(lease):
            messages = self._fitting(lease)
            if not messages:
                return []
            kept = {
                "inbox_id": self.inbox_id,
                "lease_id": lease.lease_id,
                "messages": messages,
                "acknowledged": False,
            }
            self._keep(kept)
        self._acknowledge(kept)
        return messages

    def lend(self, lease: HeldLease) -> LeasedMessages | None:
        """The messages of a lease with what acknowledges them; None where none of them is wanted."""
        with self._released_on_fault(lease):
            messages = self._fitting(lease)
            if not messages:
                return None
            return {
                "inbox_id": self.inbox_id,
                "lease_id": lease.lease_id,
                "leased_until": lease.leased_until,
                "messages": messages,
            }

    @contextmanager
    def _released_on_fault(self, lease: HeldLease) -> Iterator[None]:
        """Give a lease back at once where nothing came of it: a retry must not find an empty inbox."""
        try:
            yield
        except Exception:
            release(self.hook, self.inbox, lease.lease_id, [message["id"] for message in lease.messages])
            raise

    def _acknowledge(self, kept: dict[str, Any]) -> None:
        ids = [message["id"] for message in kept["messages"]]
        acknowledge(self.hook, kept["inbox_id"], kept["lease_id"], ids)
        self._keep({**kept, "acknowledged": True})

    def _keep(self, kept: dict[str, Any]) -> None:
        # ASCII text: the store itself refuses some JSON values that a text carries unharmed.
        text = json.dumps(kept)
        store = self._store()
        store.set(STORE_KEY, text)
        if store.get(STORE_KEY) != text:
            raise AirflowException("The task state store did not keep the messages; none was acknowledged.")

    def _store(self) -> Any:
        return self.context["task_state_store"]

    def _fitting(self, lease: HeldLease) -> list[dict[str, Any]]:
        """The messages that are wanted and that an XCom can hold; the others are left to their lease."""
        fitting = []
        for leased in lease.messages:
            message = for_people(leased)
            try:
                if not self.routes.accepts(message):
                    continue
                problem = self._problem(message)
            except UnroutableError as error:
                problem = str(error)
            if problem is None:
                fitting.append(message)
            else:
                self.tally.refuse(leased["id"], problem)
                note_refusal(self.hook, self.inbox, leased, problem)
        return fitting

    def _problem(self, message: dict[str, Any]) -> str | None:
        """
        Why an XCom cannot hold a message, found out by having it written.

        :raises AirflowRuntimeError: nothing can be written now.
        """
        if (problem := values.problem(message)) is not None:
            return f"XCom cannot hold its payload: {problem}"
        from airflow.sdk.exceptions import AirflowRuntimeError

        try:
            if not _survives_xcom(message):
                return "XCom would change its payload, which has keys of Airflow's own"
            if values.has_nul(message):
                # Only the database can tell: SQLite holds a NUL, PostgreSQL does not.
                self.context["ti"].xcom_push(key=SCRATCH_KEY, value=message)
        except AirflowRuntimeError as error:
            if of_everything(error):
                raise
            return f"XCom cannot hold its payload: {type(error).__name__}"
        return None


def _survives_xcom(message: dict[str, Any]) -> bool:
    """Whether a message comes out of Airflow's serialisation as it went in."""
    from airflow.sdk.bases.xcom import BaseXCom

    try:
        written = json.loads(json.dumps(BaseXCom.serialize_value(message)))
        return bool(BaseXCom.deserialize_value(_XComRow(written)) == message)
    except Exception:
        # Keys of Airflow's own make it build objects, which fails in as many ways as there are classes.
        return False
