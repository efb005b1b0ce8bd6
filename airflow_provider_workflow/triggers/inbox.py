"""``WorkflowInboxTrigger``: waits for messages, leases them, and hands the lease to a deferred sensor."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_workflow.triggers.base import SerializesArguments

if TYPE_CHECKING:
    from airflow_provider_workflow.triggers.handing_over import HandOver


class WorkflowInboxTrigger(SerializesArguments, BaseTrigger):
    """
    Leases messages and fires once, with the lease as one ASCII JSON text (docs/service.md 4 and 5).

    Its event is ``{"status": ..., "inbox_id": ...}`` with ``leased`` (and ``inbox_name`` and ``lease``),
    ``paused`` or ``initialization_failure`` (and ``reason``), or ``look``, which says that nothing was
    leased and that it is time to look again. It never acknowledges: Airflow may drop an event, and does so
    silently, so that is left to the task that the event resumes.

    It holds arguments only; the connection is looked up when it runs, and no secret is serialised.

    :param inbox: id or name.
    :param workflow_conn_id: id of the Airflow connection.
    :param lease_limit: messages per lease, 1 to 100.
    :param lease_seconds: length of a lease, 1 to 3600 s.
    :param poll_interval: seconds between two polls, above 0; doubles while the inbox stays empty.
    :param max_poll_interval: seconds that it doubles up to.
    :param wake_on_events: also listen to the inbox's event stream.
    :param on_paused: ``fail`` fires for a paused and drained inbox, ``wait`` waits for its resumption.
    :param settle_seconds: seconds to wait before the first lease, 0 or more. A trigger that fires while
        the process that deferred is still ending makes Airflow fail the task.
    :param hold_seconds: where above 0, lease nothing and fire ``look`` after this many seconds.
    """

    ARGUMENTS = (
        "inbox",
        "workflow_conn_id",
        "lease_limit",
        "lease_seconds",
        "poll_interval",
        "max_poll_interval",
        "wake_on_events",
        "on_paused",
        "settle_seconds",
        "hold_seconds",
    )

    def __init__(
        self,
        inbox: str,
        workflow_conn_id: str = "workflow_default",
        lease_limit: int = 100,
        lease_seconds: int = 300,
        poll_interval: float = 5,
        max_poll_interval: float = 60,
        wake_on_events: bool = True,
        on_paused: str = "fail",
        settle_seconds: float = 0,
        hold_seconds: float = 0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.inbox = inbox
        self.workflow_conn_id = workflow_conn_id
        self.lease_limit = lease_limit
        self.lease_seconds = lease_seconds
        self.poll_interval = poll_interval
        self.max_poll_interval = max_poll_interval
        self.wake_on_events = wake_on_events
        self.on_paused = on_paused
        self.settle_seconds = settle_seconds
        self.hold_seconds = hold_seconds
        self._hand_over: HandOver | None = None

    def run(self) -> AsyncIterator[TriggerEvent]:
        """
        Wait, lease, fire once.

        :raises WorkflowError: a fault that waiting does not cure: wrong credentials, no such inbox.
        """
        from airflow_provider_workflow.triggers.handing_over import HandOver

        self._hand_over = HandOver(self)
        return self._hand_over.events()

    async def cleanup(self) -> None:
        """Give back what was leased and not handed over; Airflow calls this however a trigger has ended."""
        if self._hand_over is not None:
            await self._hand_over.give_back()
