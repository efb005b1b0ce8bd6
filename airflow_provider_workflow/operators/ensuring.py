"""How a ``WorkflowEnsureInboxOperator`` ensures its inbox, and waits for it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from airflow_provider_workflow import clock
from airflow_provider_workflow.client import types
from airflow_provider_workflow.client.inboxes import DELETING, FAILED, PAUSED, SETTLED_STATES
from airflow_provider_workflow.operators.inbox_changes import InboxSummary, inbox_summary
from airflow_provider_workflow.operators.named_inbox import NamedInbox, subscription_of
from airflow_provider_workflow.triggers.inbox_active import (
    SETTLED,
    TIMED_OUT,
    WorkflowInboxActiveTrigger,
)
from airflow_provider_workflow.triggers.retrying import settle_seconds
from airflow_provider_workflow.values import plain

if TYPE_CHECKING:
    from airflow_provider_workflow.operators.ensure_inbox import WorkflowEnsureInboxOperator

log = logging.getLogger(__name__)

FIRST_WAIT_SECONDS = 1.0
"""A new inbox is ``initializing`` in the answer that creates it, and often active soon after: sooner than
a deferred task comes back."""
GRACE_SECONDS = 60
"""How much later Airflow ends a deferral than the trigger does, which says more about it."""


class InitializationFailedError(AirflowFailException):
    """
    The service could not subscribe the inbox; it cannot be resumed (docs/service.md 2.2).

    :param name: of the inbox.
    :param reason: its ``paused_reason``, or None.
    :param again: whether this operator has deleted and created it already.
    """

    def __init__(self, name: str, reason: str | None, again: bool) -> None:
        failed = "failed to initialise again after it was created anew" if again else "failed to initialise"
        text = (
            f"Inbox {name!r} {failed} ({plain(reason or 'no reason given')})."
            " Check app_key, action_key, inputs and connection_id"
        )
        if not again:
            text += (
                "; then set recreate_failed=True, or delete the inbox (WorkflowDeleteInboxOperator),"
                " so that it is created again"
            )
        super().__init__(f"{text}.")


class InboxNotSettledError(AirflowException):
    """
    The inbox is not active within the time allowed; a retry goes on waiting.

    :param seconds: how long it was waited for.
    """

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(
            f"Inbox {name!r} was not active within {seconds:g} s."
            " Look at it in the service, or give more time (timeout)."
        )


@dataclass(frozen=True)
class Ensuring:
    """
    :param asked: what to ensure, and how long to wait for it.
    """

    asked: WorkflowEnsureInboxOperator

    def begin(self) -> InboxSummary:
        """Ensure the inbox, and wait for it."""
        return self._look_until_done(clock.now() + self.asked.timeout, FIRST_WAIT_SECONDS)

    def go_on(self, event: Mapping[str, Any], deadline: float, recreated: bool) -> InboxSummary:
        """
        Go on with what the trigger brings.

        :raises AirflowException: the event is not one of the trigger's.
        """
        status = event.get("status")
        if status == TIMED_OUT:
            raise InboxNotSettledError(self.asked.name, self.asked.timeout)
        if status != SETTLED:
            raise AirflowException(f"The trigger sent an event that is not known: {status!r}")
        return self._look_until_done(deadline, recreated=recreated)

    def _look_until_done(
        self, deadline: float, first_wait: float = 0, recreated: bool = False
    ) -> InboxSummary:
        pauses, named = self._pauses(first_wait), self._named_inbox()
        while True:
            inbox = named.ensured()
            if inbox["status"] == FAILED:
                if recreated or not self.asked.recreate_failed:
                    reason = inbox.get("paused_reason")
                    raise InitializationFailedError(self.asked.name, reason, again=recreated)
                named.delete(inbox)
                recreated = True
                continue
            if self._is_done(inbox):
                self._log(named, inbox, "")
                return inbox_summary(inbox)
            left = deadline - clock.now()
            if left <= 0:
                raise InboxNotSettledError(self.asked.name, self.asked.timeout)
            pause = next(pauses)
            if pause is None:
                self._log(named, inbox, "; waiting in the triggerer until it is active")
                self._defer(inbox["id"], deadline, left, recreated)
            else:
                clock.sleep(min(pause, left))

    def _pauses(self, first: float) -> Iterator[float | None]:
        """Seconds to sleep before each further look; None to defer instead."""
        if first:
            yield min(first, self.asked.poll_interval)
        interval = self.asked.poll_interval
        while True:
            yield None if self.asked.deferrable else interval
            interval = min(interval * 2, self.asked.max_poll_interval)

    def _is_done(self, inbox: types.Inbox) -> bool:
        status = inbox["status"]
        if status == PAUSED:
            log.warning(
                "Inbox %s is paused (%s): new events are dropped until it is resumed"
                " (WorkflowResumeInboxOperator)",
                self.asked.name,
                plain(inbox.get("paused_reason") or "no reason given"),
            )
        # One that is being deleted still holds the name.
        return status in SETTLED_STATES or (not self.asked.wait_until_active and status != DELETING)

    def _log(self, named: NamedInbox, inbox: types.Inbox, what_next: str) -> None:
        log.info(
            "Inbox %s %s: id %s, status %s%s",
            self.asked.name,
            "was created" if named.created else "exists",
            plain(inbox["id"]),
            plain(inbox["status"]),
            what_next,
        )

    def _named_inbox(self) -> NamedInbox:
        subscription = subscription_of(
            self.asked.app_key, self.asked.action_key, self.asked.inputs, self.asked.connection_id
        )
        return NamedInbox(self.asked.hook, self.asked.name, subscription, self.asked.notification_url)

    def _defer(self, inbox_id: str, deadline: float, left: float, recreated: bool) -> None:
        self.asked.defer(
            trigger=WorkflowInboxActiveTrigger(
                inbox_id=inbox_id,
                deadline=deadline,
                workflow_conn_id=self.asked.workflow_conn_id,
                poll_interval=self.asked.poll_interval,
                max_poll_interval=self.asked.max_poll_interval,
                settle_seconds=settle_seconds(),
            ),
            method_name="resume",
            kwargs={"deadline": deadline, "recreated": recreated},
            timeout=timedelta(seconds=left + GRACE_SECONDS),
        )
