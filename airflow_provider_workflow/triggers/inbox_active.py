"""``WorkflowInboxActiveTrigger``: waits until an inbox is no longer in a transitional state."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_workflow import clock
from airflow_provider_workflow.triggers.base import SerializesArguments

if TYPE_CHECKING:
    from airflow_provider_workflow.client.client import AsyncWorkflowClient

log = logging.getLogger(__name__)

SETTLED = "settled"
TIMED_OUT = "timed_out"


class WorkflowInboxActiveTrigger(SerializesArguments, BaseTrigger):
    """
    Waits while an inbox is ``initializing`` or ``deleting``, and fires once (docs/service.md 2.2).

    Its event is ``{"status": "settled"}`` once the inbox is in another state or does not exist, and
    ``{"status": "timed_out"}`` after the deadline. The event does not have the state: the resumed task
    reads it, as it may have changed again.

    Only arguments are serialized, no secrets: the connection is read when the trigger runs.

    :param inbox_id: id of the inbox; not its name, which may belong to a new inbox after a deletion.
    :param workflow_conn_id: id of the Airflow connection.
    :param deadline: epoch seconds at which waiting ends.
    :param poll_interval: seconds between two polls, above 0; doubles from poll to poll.
    :param max_poll_interval: maximum interval in seconds.
    :param settle_seconds: seconds to wait before the first poll, 0 or more. Airflow fails the task if a
        trigger fires while the process that deferred is still ending.
    """

    ARGUMENTS = (
        "inbox_id",
        "deadline",
        "workflow_conn_id",
        "poll_interval",
        "max_poll_interval",
        "settle_seconds",
    )

    def __init__(
        self,
        inbox_id: str,
        deadline: float,
        workflow_conn_id: str = "workflow_default",
        poll_interval: float = 5,
        max_poll_interval: float = 60,
        settle_seconds: float = 0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.inbox_id = inbox_id
        self.deadline = deadline
        self.workflow_conn_id = workflow_conn_id
        self.poll_interval = poll_interval
        self.max_poll_interval = max_poll_interval
        self.settle_seconds = settle_seconds

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """
        Wait, fire once.

        :raises WorkflowError: a permanent error, such as wrong credentials.
        """
        from airflow_provider_workflow.hooks.workflow import WorkflowHook
        from airflow_provider_workflow.triggers.retrying import attempt_until_result

        await clock.async_sleep(self.settle_seconds)
        async with WorkflowHook(self.workflow_conn_id).async_client() as client:
            status = await attempt_until_result(
                partial(self._poll, client),
                self._wait,
                inbox=self.inbox_id,
                poll_interval=self.poll_interval,
                max_poll_interval=self.max_poll_interval,
                log=log,
            )
        yield TriggerEvent({"status": status})

    async def _poll(self, client: AsyncWorkflowClient) -> str | None:
        """Poll once; return the status to fire, or None to continue waiting."""
        from airflow_provider_workflow.client import api
        from airflow_provider_workflow.client.errors import NotFoundError
        from airflow_provider_workflow.client.inboxes import SETTLED_STATES

        try:
            inbox = await client.send(api.get_inbox(self.inbox_id))
        except NotFoundError:
            return SETTLED
        if inbox["status"] in SETTLED_STATES:
            return SETTLED
        return TIMED_OUT if clock.now() >= self.deadline else None

    async def _wait(self, seconds: float) -> bool:
        left = self.deadline - clock.now()
        # The deadline can only have passed while the service is unreachable.
        await clock.async_sleep(min(seconds, left) if left > 0 else seconds)
        return False
