"""``WorkflowEnsureInboxOperator``: an inbox of a name and a subscription exists, and is active."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from airflow_provider_workflow.client import types
from airflow_provider_workflow.client.arguments import NAME_LENGTH, URL_LENGTH, flag, intervals, seconds
from airflow_provider_workflow.client.inbox_states import DELETING, FAILED, PAUSED
from airflow_provider_workflow.named_inbox import NamedInbox, subscription_of
from airflow_provider_workflow.operators.base import WorkflowOperator
from airflow_provider_workflow.operators.inbox_admin import InboxSummary, inbox_summary
from airflow_provider_workflow.options import check_inputs, check_text, deferrable_or_default, known_later
from airflow_provider_workflow.triggers.inbox_active import WorkflowInboxActiveTrigger
from airflow_provider_workflow.triggers.patience import settle_seconds
from airflow_provider_workflow.triggers.settling import SETTLED, SETTLED_STATES, TIMED_OUT

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)

FIRST_WAIT_SECONDS = 1.0
"""A new inbox is ``initializing`` in the answer that creates it, and often active soon after: sooner than
a deferred task comes back."""
GRACE_SECONDS = 60
"""How much later Airflow ends a deferral than the trigger does, which says more about it."""


class InitializationFailedError(AirflowFailException):
    """
    The service could not subscribe the inbox; it cannot be resumed (specification 3.1, 7.3).

    :param again: whether this operator has deleted and created it already.
    """

    def __init__(self, inbox: types.Inbox, again: bool) -> None:
        reason = inbox["paused_reason"] or "no reason given"
        failed = "failed to initialise again after it was created anew" if again else "failed to initialise"
        text = (
            f"Inbox {inbox['name']!r} {failed} ({reason})."
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


class WorkflowEnsureInboxOperator(WorkflowOperator):
    """
    Creates an inbox, or finds the one of this name and subscription, and waits until it is active.

    It may run any number of times: the service finds the inbox by its name (specification 3.1, 7.1,
    service facts 4). Returns its ``id``, ``name``, ``status`` and ``paused_reason``. An inbox that is
    paused is returned with a WARNING, as resuming it is yours to decide
    (``WorkflowResumeInboxOperator``); while it is paused the service drops new events.

    :param name: name of the inbox, up to 100 characters; it never changes (templated).
    :param app_key: the app: versioned, versionless, ``@latest`` or a slug (templated).
    :param action_key: the app's trigger (templated).
    :param inputs: the trigger's fields (templated).
    :param connection_id: the account at the app: UUID or whole number; None for none (templated).
    :param notification_url: told by POST when messages arrive, up to 2048 characters (templated). An
        inbox that has another one is changed; None leaves it as it is. Airflow shows the rendered text on
        the task's page, but not where it comes from a Variable whose name holds "secret".
    :param wait_until_active: False returns an inbox that is ``initializing`` as well.
    :param recreate_failed: delete an inbox that failed to initialise, with any messages in it, and create
        it again, once per try.
    :param deferrable: wait in the triggerer; None takes ``[operators] default_deferrable``.
    :param poll_interval: seconds between the first two looks while waiting, above 0; it doubles.
    :param max_poll_interval: seconds that it doubles up to.
    :param timeout: seconds to wait at most, above 0, in each try.
    :param workflow_conn_id: id of the Airflow connection (templated).
    """

    template_fields: Sequence[str] = (
        "name",
        "app_key",
        "action_key",
        "inputs",
        "connection_id",
        "notification_url",
        *WorkflowOperator.template_fields,
    )
    template_fields_renderers = {"inputs": "json"}  # noqa: RUF012 Airflow's own form

    def __init__(
        self,
        *,
        name: str,
        app_key: str,
        action_key: str,
        inputs: Mapping[str, Any] | None = None,
        connection_id: str | int | None = None,
        notification_url: str | None = None,
        wait_until_active: bool = True,
        recreate_failed: bool = False,
        deferrable: bool | None = None,
        poll_interval: float = 5,
        max_poll_interval: float = 60,
        timeout: float = 600,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.name = check_text("name", name, NAME_LENGTH)
        self.app_key = check_text("app_key", app_key)
        self.action_key = check_text("action_key", action_key)
        self.inputs = inputs if known_later(inputs) else check_inputs(inputs)
        self.connection_id = connection_id
        self.notification_url = notification_url
        if notification_url is not None:
            check_text("notification_url", notification_url, URL_LENGTH)
        self.wait_until_active = flag("wait_until_active", wait_until_active)
        self.recreate_failed = flag("recreate_failed", recreate_failed)
        self.poll_interval, self.max_poll_interval = intervals(poll_interval, max_poll_interval)
        self.timeout = seconds("timeout", timeout)
        self.deferrable = deferrable_or_default(deferrable)

    def execute(self, context: Context) -> InboxSummary:  # noqa: ARG002 Airflow's signature
        """
        Ensure the inbox, and wait for it.

        :raises InboxNameTakenError: an inbox of this name has another subscription; both are in the text.
        :raises InitializationFailedError: the service could not subscribe it.
        :raises InboxNotSettledError: it was not active in time.
        :raises ValueError: an argument was rendered to something else than it may be.
        :raises WorkflowError: the service cannot be used.
        """
        return self._look_until_done(time.time() + self.timeout, FIRST_WAIT_SECONDS)

    def resume(
        self,
        context: Context,  # noqa: ARG002 Airflow's signature
        event: dict[str, Any] | None = None,
        deadline: float = 0,
        recreated: bool = False,
    ) -> InboxSummary:
        """
        Go on after the trigger: ensure the inbox once more, as it may have changed again.

        :param deadline: epoch seconds at which the waiting ends.
        :param recreated: whether it was deleted and created again in this try.
        :raises AirflowException: the event is not one of the trigger's.
        """
        status = (event or {}).get("status")
        if status == TIMED_OUT:
            raise InboxNotSettledError(self.name, self.timeout)
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
                if recreated or not self.recreate_failed:
                    raise InitializationFailedError(inbox, again=recreated)
                named.delete(inbox)
                recreated = True
                continue
            if self._is_done(inbox):
                return inbox_summary(inbox)
            left = deadline - time.time()
            if left <= 0:
                raise InboxNotSettledError(self.name, self.timeout)
            pause = next(pauses)
            if pause is None:
                self._defer(inbox["id"], deadline, left, recreated)
            else:
                time.sleep(min(pause, left))

    def _pauses(self, first: float) -> Iterator[float | None]:
        """Seconds to sleep before each further look; None to defer instead."""
        if first:
            yield min(first, self.poll_interval)
        interval = self.poll_interval
        while True:
            yield None if self.deferrable else interval
            interval = min(interval * 2, self.max_poll_interval)

    def _is_done(self, inbox: types.Inbox) -> bool:
        status = inbox["status"]
        if status == PAUSED:
            log.warning(
                "Inbox %s is paused (%s): new events are dropped until it is resumed"
                " (WorkflowResumeInboxOperator)",
                self.name,
                inbox["paused_reason"] or "no reason given",
            )
        # One that is being deleted still holds the name.
        return status in SETTLED_STATES or (not self.wait_until_active and status != DELETING)

    def _named_inbox(self) -> NamedInbox:
        subscription = subscription_of(self.app_key, self.action_key, self.inputs, self.connection_id)
        return NamedInbox(self.hook, self.name, subscription, self.notification_url)

    def _defer(self, inbox_id: str, deadline: float, left: float, recreated: bool) -> None:
        log.info("Inbox %s is not active yet; waiting in the triggerer", self.name)
        self.defer(
            trigger=WorkflowInboxActiveTrigger(
                inbox_id=inbox_id,
                deadline=deadline,
                workflow_conn_id=self.workflow_conn_id,
                poll_interval=self.poll_interval,
                max_poll_interval=self.max_poll_interval,
                settle_seconds=settle_seconds(),
            ),
            method_name="resume",
            kwargs={"deadline": deadline, "recreated": recreated},
            timeout=timedelta(seconds=left + GRACE_SECONDS),
        )
