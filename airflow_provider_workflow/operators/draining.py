"""How a ``WorkflowInboxDispatchOperator`` drains its inbox."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_workflow.client.errors import InboxPausedError
from airflow_provider_workflow.dispatch import Dispatcher
from airflow_provider_workflow.leasing import InboxNotActiveError
from airflow_provider_workflow.routing import Routes
from airflow_provider_workflow.runs import TaskRuns
from airflow_provider_workflow.tally import DispatchResult

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator

log = logging.getLogger(__name__)


def drain(asked: WorkflowInboxDispatchOperator, context: Context) -> DispatchResult:
    """
    Start the runs, and acknowledge.

    :param asked: what to do, and through which connection.
    :raises TargetError: no runs of the target DAG can be started; what was leased for it is released.
    :raises InboxNotActiveError: the inbox is paused, there was nothing in it, and that is to fail.
    :raises AirflowFailException: messages were refused, and that is to fail.
    """
    routes = Routes(asked.trigger_dag_id, asked.match)
    dispatcher = Dispatcher(asked.hook, asked.inbox, routes, TaskRuns(context["ti"]), asked.limits)
    dispatcher.check_targets()
    tally = dispatcher.tally
    try:
        log.info("Inbox %s: %s", asked.inbox, dispatcher.drain().value)
    except InboxPausedError as paused:
        if asked.on_paused == "fail" and tally.handled == 0:
            raise InboxNotActiveError(asked.inbox, paused.paused_reason) from None
        log.warning("Inbox %s is paused: %s", asked.inbox, paused.paused_reason)
    if tally.causes and asked.on_refused == "fail":
        raise AirflowFailException(tally.refused_text())
    return tally.result
