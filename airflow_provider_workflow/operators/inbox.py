"""Operators of the messages of a trigger inbox: dispatch them, acknowledge and release leases."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_workflow.links import StartedRunsLink
from airflow_provider_workflow.operators.base import WorkflowOperator
from airflow_provider_workflow.options import (
    check_choice,
    check_dead_letters,
    check_limits,
    check_routes,
    render_routed,
)
from airflow_provider_workflow.retry_defaults import RetriesByDefault

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_workflow.dispatch.dispatcher import Dispatcher
    from airflow_provider_workflow.hooks.workflow import WorkflowHook
    from airflow_provider_workflow.types import DispatchResult, Lease

log = logging.getLogger(__name__)


class LeaseEnd(TypedDict):
    """Numbers of messages: acknowledged or released, and those whose lease had ended before."""

    done: int
    lease_ended: int


class WorkflowInboxDispatchOperator(RetriesByDefault, WorkflowOperator):
    """
    Starts one DAG run for each message that an inbox holds now, without waiting for more.

    It does the same as ``WorkflowInboxSensor`` with ``trigger_dag_id``, but does not wait. Several
    operators may work on one inbox in parallel: a message still starts one run.

    By default it has 5 retries, with pauses that double from 10 s, so it retries for five to ten minutes.
    Airflow's arguments (``retries``, ``retry_delay``, ``retry_exponential_backoff``, ``max_retry_delay``) and
    ``default_args`` win.

    :param inbox: id or name of the inbox (templated).
    :param trigger_dag_id: DAG to start for each message, or DAG ids with the JMESPath expression that
        each is chosen by, tried in order (templated).
    :param max_messages: maximum number of messages, 1 or more; None for all available ones.
    :param max_unfinished_runs: runs of the target DAG that may be queued and running at once, 1 or more;
        without capacity the operator ends, and the other messages stay in the inbox.
    :param on_refused: ``fail`` fails the task at its end if a message was rejected, ``log`` only logs it.
        With ``dead_letter_dag_id`` the task fails only if that DAG rejected the message too.
    :param on_paused: ``fail`` or ``log``, for an inbox that is paused and has no more messages.
    :param match: JMESPath expression over a message (templated). A message for which it is false is not
        acknowledged, and is quarantined in the end unless another consumer acknowledges it.
    :param dead_letter_dag_id: DAG to start for a message that Airflow keeps rejecting (templated); the
        message is then acknowledged. Without it such a message is quarantined in the end.
    :param dead_letter_after: delivery count from which a rejected message is a dead letter, 1 to 4.
    :param unmatched: ``lease`` leaves a message that no route takes to its lease, for another consumer;
        with ``dead_letter`` it is a dead letter too, from the same delivery count on.
    :param lease_limit: messages per lease, 1 to 100.
    :param lease_seconds: length of a lease, 60 to 3600 s.
    :param workflow_conn_id: id of the Airflow connection (templated).
    """

    template_fields: Sequence[str] = (
        "inbox",
        "trigger_dag_id",
        "match",
        "dead_letter_dag_id",
        *WorkflowOperator.template_fields,
    )
    template_fields_renderers = {"trigger_dag_id": "json"}  # noqa: RUF012 Airflow's own form
    operator_extra_links = (StartedRunsLink(),)

    def __init__(
        self,
        *,
        inbox: str,
        trigger_dag_id: str | Mapping[str, str],
        max_messages: int | None = None,
        max_unfinished_runs: int | None = None,
        on_refused: str = "fail",
        on_paused: str = "fail",
        match: str | None = None,
        dead_letter_dag_id: str | None = None,
        dead_letter_after: int = 3,
        unmatched: str = "lease",
        lease_limit: int = 100,
        lease_seconds: int = 300,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.limits = check_limits(lease_limit, lease_seconds, max_messages, max_unfinished_runs)
        check_routes(trigger_dag_id, match)
        check_dead_letters(dead_letter_dag_id, dead_letter_after, unmatched, trigger_dag_id)
        self.dead_letter_dag_id = dead_letter_dag_id
        self.dead_letter_after, self.unmatched = dead_letter_after, unmatched
        self.inbox = inbox
        self.trigger_dag_id = trigger_dag_id
        self.match = match
        self.on_refused = check_choice("on_refused", on_refused, ("fail", "log"))
        self.on_paused = check_choice("on_paused", on_paused, ("fail", "log"))
        self._dispatcher: Dispatcher | None = None

    def execute(self, context: Context) -> DispatchResult:
        """
        Drain the inbox.

        :raises TargetError: no runs of the target DAG can be started; the leased messages are released,
            except the one that was rejected.
        :raises InboxNotActiveError: the inbox is paused and had no messages, and ``on_paused`` is ``fail``.
        :raises AirflowFailException: messages were rejected, and ``on_refused`` is ``fail``.
        :raises WorkflowError: the service cannot be used.
        """
        from airflow_provider_workflow.dispatch.dead_letters import DeadLetterRules
        from airflow_provider_workflow.dispatch.dispatcher import Dispatcher
        from airflow_provider_workflow.dispatch.routing import Routes
        from airflow_provider_workflow.dispatch.runs import TaskRuns, attempt_of, origin_of

        render_routed(self)
        routes = Routes(self.trigger_dag_id, self.match)
        dead_letters = self.dead_letter_dag_id
        rules = dead_letters and DeadLetterRules(dead_letters, self.dead_letter_after, self.unmatched)
        self._dispatcher = dispatcher = Dispatcher(
            self.hook,
            self.inbox,
            routes,
            TaskRuns(context["ti"]),
            self.limits,
            attempt=attempt_of(context),
            origin=origin_of(context),
            dead_letter_rules=rules or None,
        )
        dispatcher.check_targets()
        log.log(*drain_inbox(dispatcher, on_paused=self.on_paused))
        if dispatcher.counts.failing and self.on_refused == "fail":
            raise AirflowFailException(dispatcher.counts.rejected_text())
        return dispatcher.counts.result

    def get_openlineage_facets_on_complete(self, _: Any) -> Any:
        """The inbox and the started runs; Airflow's OpenLineage provider calls this after the task."""
        from airflow_provider_workflow.observers.lineage import of_inbox

        result = self._dispatcher.counts.result if self._dispatcher else None
        return of_inbox(self.hook, self.inbox, self.trigger_dag_id, result)

    def on_kill(self) -> None:
        """
        Release the current lease, if any: Airflow is ending the task.

        :raises TaskKilled: the task was working on a lease.
        """
        if self._dispatcher is not None and self._dispatcher.working:
            from airflow_provider_workflow.dispatch.lease import TaskKilled

            raise TaskKilled(self.inbox)


def drain_inbox(dispatcher: Dispatcher, *, on_paused: str = "fail") -> tuple[int, str]:
    """
    Start a run for each available message, and acknowledge the messages.

    :param on_paused: ``fail`` or ``log``, for an inbox that is paused and had no messages.
    :return: why leasing ended, as the level and the text of a log line.
    :raises TargetError: no runs of the target DAG can be started; the leased messages are released, except
        the one that was rejected.
    :raises InboxNotActiveError: the inbox is paused and had no messages, and ``on_paused`` is ``fail``.
    """
    from airflow_provider_workflow.client.errors import InboxPausedError
    from airflow_provider_workflow.client.wire import plain
    from airflow_provider_workflow.dispatch.lease import InboxNotActiveError

    try:
        return logging.INFO, f"Inbox {dispatcher.inbox}: {dispatcher.drain().value}"
    except InboxPausedError as paused:
        if on_paused == "fail" and dispatcher.counts.handled == 0:
            raise InboxNotActiveError(dispatcher.inbox, paused.paused_reason) from None
        return logging.WARNING, f"Inbox {dispatcher.inbox} is paused: {plain(paused.paused_reason)}"


class LeaseOperator(WorkflowOperator):
    """
    Ends a lease that a sensor returned.

    :param lease: what a ``WorkflowInboxSensor`` with ``acknowledge="manual"`` returned (templated).
    :param message_ids: ids of the lease, 1 or more (templated); None for all of it.
    :param workflow_conn_id: id of the Airflow connection (templated).
    """

    template_fields: Sequence[str] = ("lease", "message_ids", *WorkflowOperator.template_fields)
    template_fields_renderers = {"lease": "json", "message_ids": "json"}  # noqa: RUF012 Airflow's own form
    past_tense: ClassVar[str]
    """The action, for the log."""

    def __init__(self, *, lease: Lease | Any, message_ids: Sequence[str] | Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lease = lease
        self.message_ids = message_ids

    def execute(self, context: Context) -> LeaseEnd:  # noqa: ARG002 Airflow's signature
        """
        End the lease of these messages.

        :raises ValueError: ``lease`` is not what the sensor returned.
        """
        lease, ids = check_lease(self.lease, self.message_ids)
        done = self.end(self.hook, lease, ids)
        log.info("Inbox %s: %s %d of %d messages", lease["inbox_id"], self.past_tense, done, len(ids))
        if done < len(ids):
            log.warning("The lease of %d messages had ended already; they are redelivered", len(ids) - done)
        return {"done": done, "lease_ended": len(ids) - done}

    def end(self, hook: WorkflowHook, lease: Lease, ids: list[str]) -> int:
        """Acknowledge or release the messages; return the number that the service confirmed."""
        raise NotImplementedError


class WorkflowAcknowledgeOperator(LeaseOperator):
    """
    Acknowledges messages after the work on them succeeded (docs/service.md 3.2).

    If the lease has expired, its messages are redelivered. The operator reports that in its log and its
    result, and succeeds: the work is done, and has to be idempotent anyway.

    :param lease: what a ``WorkflowInboxSensor`` with ``acknowledge="manual"`` returned (templated).
    :param message_ids: ids of the lease, 1 or more (templated); None for all of it.
    :param workflow_conn_id: id of the Airflow connection (templated).
    """

    past_tense = "acknowledged"

    def end(self, hook: WorkflowHook, lease: Lease, ids: list[str]) -> int:
        from airflow_provider_workflow.dispatch.lease import acknowledge

        return acknowledge(hook, lease["inbox_id"], lease["lease_id"], ids)


class WorkflowReleaseOperator(LeaseOperator):
    """
    Releases messages: they can be leased again at once. Their delivery count stays.

    :param lease: what a ``WorkflowInboxSensor`` with ``acknowledge="manual"`` returned (templated).
    :param message_ids: ids of the lease, 1 or more (templated); None for all of it.
    :param workflow_conn_id: id of the Airflow connection (templated).
    """

    past_tense = "released"

    def end(self, hook: WorkflowHook, lease: Lease, ids: list[str]) -> int:
        from airflow_provider_workflow.dispatch.lease import release

        return release(hook, lease["inbox_id"], lease["lease_id"], ids)


def check_lease(lease: Any, message_ids: Any) -> tuple[Lease, list[str]]:
    """
    :raises ValueError: an argument is invalid; the text names it.
    """
    if not _is_lease(lease):
        raise ValueError(
            'lease must be what a WorkflowInboxSensor with acknowledge="manual" returned'
            f" (inbox_id, lease_id, messages), not a {type(lease).__name__}"
        )
    ids = message_ids if message_ids is not None else [message["id"] for message in lease["messages"]]
    if not _is_list_of(str, ids):
        raise ValueError(f"message_ids must be a list of message ids, not a {type(ids).__name__}")
    if not ids or not all(ids):
        raise ValueError(
            "message_ids must contain at least one id, and no empty one; omit it for the whole lease"
        )
    return lease, list(ids)


def _is_lease(lease: Any) -> bool:
    return (
        isinstance(lease, Mapping)
        and all(isinstance(lease.get(name), str) for name in ("inbox_id", "lease_id"))
        and _is_list_of(Mapping, lease.get("messages"))
        and all(isinstance(message.get("id"), str) for message in lease["messages"])
    )


def _is_list_of(kind: type, values: Any) -> bool:
    is_list = isinstance(values, Sequence) and not isinstance(values, str)
    return is_list and all(isinstance(value, kind) for value in values)
