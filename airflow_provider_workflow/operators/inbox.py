"""Operators of the messages of a trigger inbox: dispatch them, acknowledge and release leases."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_workflow.operators.base import (
    DispatchingOperator,
    WorkflowOperator,
    is_of_source,
    retries_transient_errors,
)
from airflow_provider_workflow.types import BY_USER

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_workflow.dispatch.dispatcher import Dispatcher
    from airflow_provider_workflow.types import DispatchResult, Lease

log = logging.getLogger(__name__)


class WorkflowInboxDispatchOperator(DispatchingOperator):
    """
    Starts one DAG run for each message that an inbox holds now, without waiting for more.

    Without capacity (``max_unfinished_runs``), and after 10 minutes or 10,000 messages, it ends. Several
    operators may work on one inbox in parallel: a message still starts one run. By default it has 5 retries,
    so it retries for about five minutes.

    The task fails without a retry (with one after a notice of messages) while the service has paused the
    inbox and drops new events, the inbox is missing, or the credentials are rejected.

    Its arguments are those of :class:`~airflow_provider_workflow.operators.base.DispatchingOperator`;
    ``on_paused`` is ``fail`` or ``log``.
    """

    def execute(self, context: Context) -> DispatchResult:
        """
        Drain the inbox, as :func:`drain_inbox` does.

        :raises AirflowFailException: messages were rejected, and ``on_rejected`` is ``fail``; or the inbox
            cannot be used until the cause, which the text names, is fixed.
        """
        self._read_rendered()
        notices: list[Mapping[str, Any]] = []
        for events in (context.get("triggering_asset_events") or {}).values():
            for event in events:
                payload = (event.extra or {}).get("payload")
                notices.append(payload if isinstance(payload, Mapping) else {})
        # A notice of messages raises no alarm, as those are due seldom.
        alarms = [notice for notice in notices if notice.get("alarm") is not False and self._is_own(notice)]
        checks_source = bool(alarms or not notices)
        on_paused = self.on_paused if checks_source else "log"
        self._worker = dispatcher = self._new_dispatcher(context, checks_source=checks_source)
        try:
            log.log(*drain_inbox(dispatcher, on_paused=on_paused))
        except Exception as error:
            # In a run without an alarm the second try confirms it.
            if not is_of_source(error) or (not checks_source and context["ti"].try_number == 1):
                raise
            raise AirflowFailException(str(error)) from error
        if dispatcher.counts.causes and self.on_rejected == "fail":
            raise AirflowFailException(dispatcher.counts.rejected_text())
        if any(alarm.get("alarm") and not alarm.get("inbox_id") for alarm in alarms):
            raise AirflowFailException(
                f"The triggerer could not use the inbox {self.inbox!r}."
                " This worker can: see the log of the triggerer"
            )
        return dispatcher.counts.result

    def _is_own(self, notice: Mapping[str, Any]) -> bool:
        """Whether a notice may be of this inbox: a DAG may have several."""
        from airflow_provider_workflow.client.inboxes import is_id
        from airflow_provider_workflow.client.wire import plain

        name = notice.get("inbox")
        if not isinstance(name, str) or is_id(name) != is_id(self.inbox):
            return True
        return name == plain(self.inbox)


def drain_inbox(dispatcher: Dispatcher, *, on_paused: str = "fail") -> tuple[int, str]:
    """
    Start a run for each available message, and acknowledge the messages.

    :param on_paused: ``fail`` or ``log``, for an inbox that the service has paused.
    :return: why leasing ended, as the level and the text of a log line.
    :raises TargetError: no runs of the target DAG can be started; the leased messages are released, except
        the one that was rejected.
    :raises InboxNotActiveError: the service has paused the inbox, and ``on_paused`` is ``fail``.
    """
    from airflow_provider_workflow.client.errors import InboxPausedError
    from airflow_provider_workflow.client.wire import plain
    from airflow_provider_workflow.dispatch.run_errors import InboxNotActiveError

    try:
        drained = dispatcher.drain()
    except InboxPausedError as paused:
        if on_paused == "fail" and paused.paused_reason != BY_USER:
            conn_id = dispatcher.hook.workflow_conn_id
            raise InboxNotActiveError(dispatcher.inbox, paused.paused_reason, conn_id) from None
        reason = plain(paused.paused_reason)
        return logging.WARNING, f"Inbox {dispatcher.inbox} is paused: {reason}"
    if dispatcher.unreachable is not None:
        raise dispatcher.unreachable
    return logging.INFO, f"Inbox {dispatcher.inbox}: {drained.value}"


_ALL: Any = object()
"""Not None, which is what a task returned that returned nothing."""


class LeaseOperator(WorkflowOperator):
    """
    Ends the lease of messages that a sensor returned.

    Returns the numbers of messages ``done``, and of those whose lease had ended before (``lease_ended``).

    :param lease: what a ``WorkflowInboxSensor`` with ``acknowledge="manual"`` returned (templated).
    :param message_ids: up to 100 ids of the lease (templated); without them all of it.
    """

    template_fields: Sequence[str] = ("lease", "message_ids", *WorkflowOperator.template_fields)
    template_fields_renderers = {"lease": "json", "message_ids": "json"}  # noqa: RUF012 Airflow's own form
    hook_method: ClassVar[str]
    """The name of the hook's method that ends the lease."""
    past_tense: ClassVar[str]
    """The action, for the log."""

    def __init__(
        self,
        *,
        lease: Lease | Any,
        message_ids: Sequence[str] | Any = _ALL,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.lease = lease
        self._ends_all = message_ids is _ALL
        self.message_ids = None if self._ends_all else message_ids

    @retries_transient_errors
    def execute(self, context: Context) -> dict[str, int]:  # noqa: ARG002 Airflow's signature
        """
        End the lease of these messages.

        :raises ValueError: an argument is invalid; the text names it.
        """
        from airflow_provider_workflow.client.errors import LeaseExpiredError

        if self.message_ids is None and not self._ends_all:
            raise ValueError("message_ids is None: leave it out for all messages of the lease")
        lease, message_ids = self.lease, self.message_ids
        try:
            inbox_id, lease_id = lease["inbox_id"], lease["lease_id"]
            ids = [message["id"] for message in lease["messages"]]
            is_lease = all(isinstance(value, str) for value in (inbox_id, lease_id, *ids))
        except (TypeError, LookupError):
            is_lease = False
        if not is_lease:
            raise ValueError(
                'lease must be what a WorkflowInboxSensor with acknowledge="manual" returned'
                f" (inbox_id, lease_id, messages), not a {type(lease).__name__}"
            )
        if message_ids is not None:
            # The output of a mapped task is a sequence of Airflow's own.
            if isinstance(message_ids, str) or not isinstance(message_ids, (Sequence, Set)):
                raise ValueError(f"message_ids must be a list of ids, not a {type(message_ids).__name__}")
            ids = list(message_ids)
        try:
            answer = getattr(self.hook, self.hook_method)(inbox_id, lease_id, ids) if ids else {}
            done = len(answer.get("results") or [])
        except LeaseExpiredError:
            done = 0
        log.info("Inbox %s: %s %d of %d messages", inbox_id, self.past_tense, done, len(ids))
        if done < len(ids):
            text = "The lease of %d messages had ended already; they are redelivered, unless %s before"
            log.warning(text, len(ids) - done, self.past_tense)
        return {"done": done, "lease_ended": len(ids) - done}


class WorkflowAcknowledgeOperator(LeaseOperator):
    """
    Acknowledges messages after the work on them succeeded (docs/service.md 3.2).

    If the lease has expired, its messages are redelivered. The operator reports that and succeeds: the work
    is done, and has to be idempotent anyway.

    Its arguments are those of :class:`~airflow_provider_workflow.operators.inbox.LeaseOperator`.
    """

    hook_method = "acknowledge_messages"
    past_tense = "acknowledged"


class WorkflowReleaseOperator(LeaseOperator):
    """
    Releases messages: they can be leased again at once. Their delivery count stays.

    Its arguments are those of :class:`~airflow_provider_workflow.operators.inbox.LeaseOperator`.
    """

    hook_method = "release_messages"
    past_tense = "released"
