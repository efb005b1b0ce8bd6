"""How a ``WorkflowInboxActiveTrigger`` waits until its inbox has left the states that pass by themselves."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_workflow import clock
from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.errors import NotFoundError
from airflow_provider_workflow.client.inboxes import ACTIVE, FAILED, PAUSED
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.triggers.retrying import patiently

if TYPE_CHECKING:
    from airflow_provider_workflow.client.client import AsyncWorkflowClient
    from airflow_provider_workflow.triggers.inbox_active import WorkflowInboxActiveTrigger

log = logging.getLogger(__name__)

SETTLED_STATES = frozenset({ACTIVE, PAUSED, FAILED})
"""States that waiting does not change; ``initializing``, ``deleting`` and unknown ones may pass."""
SETTLED = "settled"
TIMED_OUT = "timed_out"


@dataclass(frozen=True)
class Settling:
    """
    :param asked: what to wait for, and for how long.
    """

    asked: WorkflowInboxActiveTrigger

    async def status(self) -> str:
        """
        Wait: ``settled`` or ``timed_out``.

        :raises WorkflowError: a fault that waiting does not cure.
        """
        await clock.async_sleep(self.asked.settle_seconds)
        async with WorkflowHook(self.asked.workflow_conn_id).async_client() as client:
            return await patiently(
                partial(self._look, client),
                self._wait,
                inbox=self.asked.inbox_id,
                poll_interval=self.asked.poll_interval,
                max_poll_interval=self.asked.max_poll_interval,
                log=log,
            )

    async def _look(self, client: AsyncWorkflowClient) -> str | None:
        """Look once; the status to fire, or None to wait on."""
        try:
            inbox = await client.send(api.get_inbox(self.asked.inbox_id))
        except NotFoundError:
            return SETTLED
        if inbox["status"] in SETTLED_STATES:
            return SETTLED
        return TIMED_OUT if clock.now() >= self.asked.deadline else None

    async def _wait(self, seconds: float) -> bool:
        left = self.asked.deadline - clock.now()
        # Past the deadline only while the service is out of reach.
        await clock.async_sleep(min(seconds, left) if left > 0 else seconds)
        return False
