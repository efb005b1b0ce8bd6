"""How a ``WorkflowInboxDispatchOperator`` drains its inbox."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_workflow.client.errors import InboxPausedError
from airflow_provider_workflow.dispatch.dispatcher import Dispatcher
from airflow_provider_workflow.dispatch.results import DispatchResult
from airflow_provider_workflow.dispatch.routing import Routes
from airflow_provider_workflow.dispatch.runs import TaskRuns, origin_of
from airflow_provider_workflow.dispatch.session import InboxNotActiveError
from airflow_provider_workflow.dispatch.target_check import TargetCheck, TargetHistory
from airflow_provider_workflow.values import plain

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator

log = logging.getLogger(__name__)


def dispatcher_of(asked: WorkflowInboxDispatchOperator, context: Context) -> Dispatcher:
    """
    What drains the inbox of an operator.

    :param asked: what to do, and through which connection.
    """
    routes = Routes(asked.trigger_dag_id, asked.match)
    targets = TargetCheck(TaskRuns(context["ti"]), routes.dag_ids, TargetHistory(context))
    return Dispatcher(asked.hook, asked.inbox, routes, targets, asked.limits, origin=origin_of(context))


def drain(dispatcher: Dispatcher, *, on_paused: str, on_refused: str) -> DispatchResult:
    """
    Start the runs, and acknowledge.

    :raises TargetError: no runs of the target DAG can be started; what was leased is released, but for
        the message that showed it.
    :raises InboxNotActiveError: the inbox is paused, there was nothing in it, and that is to fail.
    :raises AirflowFailException: messages were refused, and that is to fail.
    """
    dispatcher.check_targets()
    inbox, tally = dispatcher.inbox, dispatcher.tally
    try:
        log.info("Inbox %s: %s", inbox, dispatcher.drain().value)
    except InboxPausedError as paused:
        if on_paused == "fail" and tally.handled == 0:
            raise InboxNotActiveError(inbox, paused.paused_reason) from None
        log.warning("Inbox %s is paused: %s", inbox, plain(paused.paused_reason))
    if tally.causes and on_refused == "fail":
        raise AirflowFailException(tally.refused_text())
    return tally.result
