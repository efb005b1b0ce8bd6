"""Operators of the messages of a trigger inbox: dispatch them, acknowledge and release leases."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from airflow_provider_workflow import clock, moments
from airflow_provider_workflow.inbox_names import name_of
from airflow_provider_workflow.operators.alarms import RaisesAlarms
from airflow_provider_workflow.operators.base import (
    DispatchingOperator,
    WorkflowOperator,
    retries_transient_errors,
)
from airflow_provider_workflow.options import check_output
from airflow_provider_workflow.source import (
    NO_STORE,
    SourceError,
    SourceProblem,
    problem_of_error,
    reading_pause,
)

if TYPE_CHECKING:
    from typing import Unpack

    from airflow.sdk import Context

    from airflow_provider_workflow.arguments import DispatchTaskArguments
    from airflow_provider_workflow.dispatch.dispatcher import Dispatcher
    from airflow_provider_workflow.dispatch.results import Counts
    from airflow_provider_workflow.types import DispatchResult, Lease

log = logging.getLogger(__name__)

MAX_NOTICE_AGE_SECONDS = 600.0
"""A notice of an alarm that is older fails no task whose source is sound."""
PATIENCE_SECONDS = 900.0
"""After a notice of messages the watcher raises the alarm; the task does only if the watcher does not."""


class Notice(NamedTuple):
    """
    A notice of a watcher that started this run.

    :param payload: of its asset event.
    :param made_at: when the event was made, in epoch seconds.
    """

    payload: Mapping[str, Any]
    made_at: float


def notices_of(context: Context) -> list[Notice]:
    """The notices that started a run; none if a time schedule or a user did."""
    notices: list[Notice] = []
    for events in (context.get("triggering_asset_events") or {}).values():
        for event in events:
            payload = (event.extra or {}).get("payload")
            payload = payload if isinstance(payload, Mapping) else {}
            notices.append(Notice(payload, event.timestamp.timestamp()))
    return notices


class WorkflowInboxDispatchOperator(RaisesAlarms, DispatchingOperator):
    """
    Starts one DAG run for each message that an inbox holds now, without waiting for more.

    Without capacity (``max_unfinished_runs``), and after 10 minutes or 10,000 messages, it ends. Several
    operators may work on one inbox in parallel: a message still starts one run. By default it has 5 retries,
    so it retries for about five minutes.

    If the service has paused the inbox and drops new events, the inbox is missing, is being deleted or failed
    to initialize, or the credentials are rejected, at two readings at least 60 s apart, the task fails
    without a retry. A task that is the first to see that works on, and reads again, for up to 3 minutes.
    Until the inbox was sound for an hour a task fails again every 6 hours; the others work on the messages
    that there are, and are skipped. After a notice of an alarm the task fails with the notice's problem,
    unless that is a pause and ``on_paused`` is ``log``.

    Its arguments are those of :class:`~airflow_provider_workflow.operators.base.DispatchingOperator`;
    ``on_paused`` is ``fail`` or ``log``.
    """

    on_paused: Literal["fail", "log"]

    # Not inherited: the choices of ``on_paused`` are not those of the sensor, and an editor shows them.
    def __init__(
        self,
        *,
        inbox: str,
        trigger_dag_id: str | Mapping[str, str],
        on_paused: Literal["fail", "log"] = "fail",
        **kwargs: Unpack[DispatchTaskArguments],
    ) -> None:
        super().__init__(inbox=inbox, trigger_dag_id=trigger_dag_id, on_paused=on_paused, **kwargs)

    def execute(self, context: Context) -> DispatchResult:
        """
        Drain the inbox, as :func:`drain_inbox` does.

        :raises AirflowFailException: messages were rejected, and ``on_rejected`` is ``fail``; or the source
            is in trouble, and that is an alarm.
        :raises AirflowSkipException: the source is in trouble, and the alarm was raised before, or the
            watcher raises it.
        """
        from airflow_provider_workflow.dispatch.results import Counts

        self._read_rendered()
        counts, notices = Counts(), notices_of(context)
        # A notice of messages raises no alarm, as those are due seldom.
        own_notices = [
            notice
            for notice in notices
            if notice.payload.get("alarm") is not False and self._is_own(notice.payload)
        ]
        checks_source = bool(own_notices or not notices)
        drain = partial(
            self._drain, context, counts, checks_source=checks_source, reports_quarantine=not notices
        )
        problem = drain()
        alarms = [notice for notice in own_notices if notice.payload.get("alarm")]
        if alarms:
            self._fail_for_notice(context, problem, max(alarms, key=lambda notice: notice.made_at))
        elif problem is not None:
            problem = self._watch(context, problem, drain, checks_source=checks_source)
        self._store_alarm(context)
        if counts.causes and self.on_rejected == "fail":
            raise AirflowFailException(counts.rejected_text())
        if problem is not None:
            raise AirflowSkipException(f"{problem.text} (since {self._alarm.since})")
        return counts.result

    def _drain(
        self, context: Context, counts: Counts, *, checks_source: bool, reports_quarantine: bool
    ) -> SourceProblem | None:
        """Work on the messages that there are; return the problem of the source, if it has one."""
        on_paused = self.on_paused if checks_source else "log"
        self._worker = dispatcher = self._new_dispatcher(
            context,
            counts=counts,
            checks_source=checks_source,
            reports_quarantine=reports_quarantine,
        )
        try:
            log.log(*drain_inbox(dispatcher, on_paused=on_paused))
        except Exception as error:
            problem = problem_of_error(error)
            if problem is None or problem.may_be_away:
                raise
            self._reconnect()
            return problem
        return None

    def _fail_for_notice(self, context: Context, problem: SourceProblem | None, notice: Notice) -> None:
        """
        Fail for the newest alarm of the watcher, which has decided that it is due.

        The watcher does not know ``on_paused``: with ``log`` its alarm of a paused inbox fails nothing.

        :param problem: what this task itself found.
        :raises AirflowFailException: it found a problem too, or the notice is recent.
        """
        reported = notice.payload.get("problem")
        noticed = SourceProblem.of(reported) or SourceProblem("unusable", "see its log")
        if problem is None and not noticed.is_alarm(self.on_paused):
            log.warning("Inbox %s: %s", self._inbox_name, noticed.text)
            return
        if problem is None and clock.now() - notice.made_at > MAX_NOTICE_AGE_SECONDS:
            log.info("Inbox %s: the source was in trouble, and is sound again", self._inbox_name)
            return
        self._found(problem or noticed, context)
        since = moments.moment_of(reported.get("since")) if isinstance(reported, Mapping) else None
        if since is not None:
            self._alarm.lasts_since(since.timestamp())
        if problem is not None:
            self._raise_alarm(context, problem.text)
        self._alarm.raised()
        self._store_alarm(context)
        began_at = "a few minutes ago" if since is None else moments.iso(since)
        raise AirflowFailException(
            f"The triggerer finds the inbox {self._inbox_name!r} in trouble since {began_at},"
            f" though this task could use it. What the triggerer found: {noticed.text}"
        )

    def _watch(
        self,
        context: Context,
        problem: SourceProblem | None,
        drain: Callable[[], SourceProblem | None],
        *,
        checks_source: bool,
    ) -> SourceProblem | None:
        """
        Work on, and take readings, until a problem is an alarm, or was one before.

        :param problem: of the first reading.
        :param drain: works on the messages that there are, and takes a reading.
        :return: the problem of the last reading.
        :raises AirflowFailException: it is an alarm.
        """
        began_at = clock.monotonic()
        while True:
            if problem is None:
                self._alarm.sound()
            else:
                self._found(problem, context)
                # The watcher knows nothing of the payload store.
                is_own = checks_source or problem.kind == NO_STORE
                if self._alarm.is_due(0 if is_own else PATIENCE_SECONDS):
                    self._raise_alarm(context, problem.text)
            is_over = not checks_source or clock.monotonic() - began_at >= self._watch_seconds
            if is_over or not self._alarm.is_unconfirmed:
                return problem
            pause = reading_pause()
            text = "Inbox %s: reading its state again in %.0f s; a problem that lasts fails the task: %s"
            state = problem.text if problem else "it is sound at the moment"
            log.warning(text, self._inbox_name, pause, state)
            clock.sleep(pause)
            problem = drain()

    def _is_own(self, notice: Mapping[str, Any]) -> bool:
        """Whether a notice may be of this inbox: a DAG may have several."""
        from airflow_provider_workflow.client.inboxes import is_id
        from airflow_provider_workflow.text import escaped

        name = notice.get("inbox")
        if not isinstance(name, str) or is_id(name) != is_id(self.inbox):
            return True
        return name == escaped(self.inbox)


def drain_inbox(dispatcher: Dispatcher, *, on_paused: Literal["fail", "log"] = "fail") -> tuple[int, str]:
    """
    Start a run for each available message, and acknowledge the messages.

    :param on_paused: ``fail`` or ``log``, for an inbox that the service has paused.
    :return: why leasing ended, as the level and the text of a log line.
    :raises TargetError: no runs of the target DAG can be started; the leased messages are released, except
        the one that was rejected.
    :raises SourceError: the inbox has no messages, and no events arrive in it; not if it is only paused, by a
        user or with ``on_paused`` ``log``.
    """
    try:
        drained = dispatcher.drain()
    except SourceError as error:
        if error.problem.is_alarm(on_paused):
            raise
        return logging.WARNING, error.problem.text
    if dispatcher.unreachable is not None:
        raise dispatcher.unreachable
    return logging.INFO, f"Inbox {dispatcher.inbox_name}: {drained.value}"


_ALL: Any = object()
"""The default of message_ids. None is rejected: it is the XCom of a task that returned nothing."""


class LeaseOperator(WorkflowOperator):
    """
    Ends the lease of messages that a sensor returned.

    Returns the numbers of messages ``done``, and of those whose lease had ended before (``lease_ended``).

    :param lease: what a ``WorkflowInboxSensor`` with ``acknowledge="manual"`` returned (templated).
    :param message_ids: up to 100 ids of the lease (templated); without them all of it.
    """

    template_fields: Sequence[str] = ("lease", "message_ids", *WorkflowOperator.template_fields)
    template_fields_renderers = {"lease": "json", "message_ids": "json"}  # noqa: RUF012 Airflow's own form
    MULTIPLE_OUTPUTS = True
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
        self.lease = check_output("lease", lease)
        self._ends_all = message_ids is _ALL
        self.message_ids = None if self._ends_all else check_output("message_ids", message_ids)

    @retries_transient_errors
    def execute(self, context: Context) -> dict[str, int]:  # noqa: ARG002 Airflow's signature
        """
        End the lease of these messages.

        :raises ValueError: an argument is invalid; the text names it.
        """
        from airflow_provider_workflow.client.errors import LeaseExpiredError
        from airflow_provider_workflow.text import counted, escaped

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
        # A lease of version 0.2.0 has no name.
        name = escaped(str(lease.get("inbox_name") or name_of(inbox_id, self.hook.workflow_conn_id)))
        log.info("Inbox %s: %s %d of %s", name, self.past_tense, done, counted(len(ids), "message"))
        if done < len(ids):
            text = "Inbox %s: the lease of %s had ended already; the service redelivers what was not %s"
            log.warning(text, name, counted(len(ids) - done, "message"), self.past_tense)
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
