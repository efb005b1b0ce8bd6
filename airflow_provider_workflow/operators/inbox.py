"""Operators of the messages of a trigger inbox: dispatch them, acknowledge and release leases."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_workflow.operators.base import DispatchingOperator, WorkflowOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_workflow.dispatch.dispatcher import Dispatcher
    from airflow_provider_workflow.hooks.workflow import WorkflowHook
    from airflow_provider_workflow.types import Acknowledged, DispatchResult, Lease, Released

log = logging.getLogger(__name__)


class LeaseEnd(TypedDict):
    """Numbers of messages: acknowledged or released, and those whose lease had ended before."""

    done: int
    lease_ended: int


class WorkflowInboxDispatchOperator(DispatchingOperator):
    """
    Starts one DAG run for each message that an inbox holds now, without waiting for more.

    It does the same as ``WorkflowInboxSensor`` with ``trigger_dag_id``, but does not wait: without capacity
    (``max_unfinished_runs``) it ends. Several operators may work on one inbox in parallel: a message still
    starts one run. By default it has 5 retries, so it retries for five to ten minutes.

    Its arguments are those of :class:`~airflow_provider_workflow.operators.base.DispatchingOperator`;
    ``on_paused`` is ``fail`` or ``log``.
    """

    def execute(self, context: Context) -> DispatchResult:
        """
        Drain the inbox.

        :raises TargetError: no runs of the target DAG can be started; the leased messages are released,
            except the one that was rejected.
        :raises InboxNotActiveError: the inbox is paused and had no messages, and ``on_paused`` is ``fail``.
        :raises AirflowFailException: messages were rejected, and ``on_rejected`` is ``fail``.
        :raises WorkflowError: the service cannot be used.
        """
        self._read_rendered()
        self._worker = dispatcher = self._new_dispatcher(context)
        log.log(*drain_inbox(dispatcher, on_paused=self.on_paused))
        if dispatcher.counts.causes and self.on_rejected == "fail":
            raise AirflowFailException(dispatcher.counts.rejected_text())
        return dispatcher.counts.result


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
        drained = dispatcher.drain()
    except InboxPausedError as paused:
        if on_paused == "fail" and dispatcher.counts.handled == 0:
            raise InboxNotActiveError(dispatcher.inbox, paused.paused_reason) from None
        return logging.WARNING, f"Inbox {dispatcher.inbox} is paused: {plain(paused.paused_reason)}"
    if dispatcher.unreachable is not None:
        raise dispatcher.unreachable
    return logging.INFO, f"Inbox {dispatcher.inbox}: {drained.value}"


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
        from airflow_provider_workflow.client.errors import LeaseExpiredError

        lease, ids = _check_lease(self.lease, self.message_ids)
        try:
            answer = self.end(self.hook)(lease["inbox_id"], lease["lease_id"], ids)
        except LeaseExpiredError:
            done = 0
        else:
            done = len(answer.get("results") or [])
        log.info("Inbox %s: %s %d of %d messages", lease["inbox_id"], self.past_tense, done, len(ids))
        if done < len(ids):
            log.warning("The lease of %d messages had ended already; they are redelivered", len(ids) - done)
        return {"done": done, "lease_ended": len(ids) - done}

    def end(self, hook: WorkflowHook) -> Callable[..., Acknowledged | Released]:
        """The method of the hook that acknowledges or releases the messages."""
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

    def end(self, hook: WorkflowHook) -> Callable[..., Acknowledged]:
        return hook.acknowledge_messages


class WorkflowReleaseOperator(LeaseOperator):
    """
    Releases messages: they can be leased again at once. Their delivery count stays.

    :param lease: what a ``WorkflowInboxSensor`` with ``acknowledge="manual"`` returned (templated).
    :param message_ids: ids of the lease, 1 or more (templated); None for all of it.
    :param workflow_conn_id: id of the Airflow connection (templated).
    """

    past_tense = "released"

    def end(self, hook: WorkflowHook) -> Callable[..., Released]:
        return hook.release_messages


def _check_lease(lease: Any, message_ids: Any) -> tuple[Lease, list[str]]:
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
