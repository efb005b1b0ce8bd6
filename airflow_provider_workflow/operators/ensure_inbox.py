"""``WorkflowEnsureInboxOperator``: ensures that an inbox exists and is active."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from http import HTTPStatus
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from airflow_provider_workflow import clock
from airflow_provider_workflow.client.arguments import NAME_LENGTH, URL_LENGTH, flag, intervals, seconds
from airflow_provider_workflow.client.errors import ConflictError, NotFoundError
from airflow_provider_workflow.operators.base import WorkflowOperator
from airflow_provider_workflow.operators.inbox_admin import InboxSummary, inbox_summary
from airflow_provider_workflow.options import (
    check_inputs,
    check_string,
    deferrable_or_default,
    known_later,
    subscription_of,
)
from airflow_provider_workflow.rendering import ABSENT

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_workflow.client import types
    from airflow_provider_workflow.client.wire import Answer
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)

FIRST_WAIT_SECONDS = 1.0
"""A new inbox is ``initializing`` at first, and often active sooner than a deferred task resumes."""
GRACE_SECONDS = 60
"""Airflow's timeout of the deferral is this much later than the trigger's, whose error says more."""


class InboxNameTakenError(AirflowFailException):
    """
    The name belongs to an inbox with another subscription (docs/service.md 11.2); no retry changes that.

    :param wanted: the subscription that was given.
    :param existing: the inbox that has the name.
    """

    def __init__(self, name: str, wanted: types.Subscription, existing: types.Inbox) -> None:
        from airflow_provider_workflow.client.wire import plain

        subscription = existing.get("subscription")
        has = json.dumps(subscription, sort_keys=True) if subscription else "not shown by the service"
        super().__init__(
            f"The name {name!r} belongs to inbox {plain(existing['id'])}, which has another subscription."
            f" Requested: {json.dumps(wanted, sort_keys=True)}; existing: {has}."
            " Choose another name, or delete that inbox first."
        )


class InitializationFailedError(AirflowFailException):
    """
    The service could not subscribe the inbox; it cannot be resumed (docs/service.md 2.2).

    :param name: name of the inbox.
    :param reason: its ``paused_reason``, or None.
    :param again: whether this operator has already deleted and created it in this try.
    """

    def __init__(self, name: str, reason: str | None, again: bool) -> None:
        from airflow_provider_workflow.client.wire import plain

        after = " again after it was deleted and created" if again else ""
        fix = "Check app_key, action_key, inputs and connection_id"
        if not again:
            fix += (
                "; then set recreate_failed=True, or delete the inbox (WorkflowDeleteInboxOperator),"
                " so that it is created again"
            )
        super().__init__(
            f"Inbox {name!r} failed to initialize{after} ({plain(reason or 'no reason given')}). {fix}."
        )


class InboxNotSettledError(AirflowException):
    """
    The inbox did not become active in time; a retry waits again.

    :param seconds: how long the task waited.
    """

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(
            f"Inbox {name!r} was not active within {seconds:g} s. Check it, or increase timeout."
        )


class WorkflowEnsureInboxOperator(WorkflowOperator):
    """
    Creates an inbox, or finds the one of this name and subscription, and waits until it is active.

    It is idempotent: the service finds the inbox by its name (docs/service.md 2.2, 4.1 and 11.2).
    Returns its ``id``, ``name``, ``status`` and ``paused_reason``. A paused inbox is returned with a
    WARNING and not resumed (``WorkflowResumeInboxOperator`` does that); while it is paused the service
    drops new events.

    :param name: name of the inbox, up to 100 characters; it never changes (templated).
    :param app_key: the app: versioned, versionless, ``@latest`` or a slug (templated).
    :param action_key: the app's trigger (templated).
    :param inputs: the trigger's fields (templated).
    :param connection_id: the account at the app: UUID or whole number; None for none (templated).
    :param notification_url: URL to which the service posts when messages arrive, up to 2048 characters
        (templated). That of an existing inbox is changed; None leaves it unchanged. Airflow shows the
        rendered URL on the task's page, unless it comes from a Variable whose name contains "secret".
    :param notify: let the service notify Airflow's API server, in place of ``notification_url``: a
        notification records an event of ``create_asset(inbox=name)`` (docs/notifications.md).
    :param wait_until_active: False also returns an inbox that is still ``initializing``.
    :param recreate_failed: delete an inbox that failed to initialize, with any messages in it, and create
        it again, once per try.
    :param deferrable: wait in the triggerer; None takes ``[operators] default_deferrable``.
    :param poll_interval: seconds between the first two requests while waiting, above 0; it doubles.
    :param max_poll_interval: maximum interval in seconds.
    :param timeout: maximum seconds to wait in each try, above 0.
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
    STRINGS = {  # noqa: RUF012 see RendersStrings
        "name": (),
        "app_key": (),
        "action_key": (),
        "notification_url": ABSENT,
        **WorkflowOperator.STRINGS,
    }
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
        notify: bool = False,
        wait_until_active: bool = True,
        recreate_failed: bool = False,
        deferrable: bool | None = None,
        poll_interval: float = 5,
        max_poll_interval: float = 60,
        timeout: float = 600,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.name = check_string("name", name, NAME_LENGTH)
        self.app_key = check_string("app_key", app_key)
        self.action_key = check_string("action_key", action_key)
        self.inputs = inputs if known_later(inputs) else check_inputs(inputs)
        self.connection_id = connection_id
        self.notification_url = notification_url
        if notification_url is not None:
            check_string("notification_url", notification_url, URL_LENGTH)
        self.notify = flag("notify", notify)
        if notify and notification_url is not None:
            raise ValueError(
                "notify and notification_url exclude each other: both are the URL for notifications"
            )
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
        :raises ValueError: a rendered argument has an invalid value.
        :raises NotificationURLError: ``notify`` is True, and Airflow's configuration lacks what is needed.
        :raises WorkflowError: the service cannot be used.
        """
        return self._wait_until_active(
            clock.now() + self.timeout, [min(FIRST_WAIT_SECONDS, self.poll_interval)]
        )

    def resume(
        self,
        context: Context,  # noqa: ARG002 Airflow's signature
        event: dict[str, Any] | None = None,
        deadline: float = 0,
        recreated: bool = False,
    ) -> InboxSummary:
        """
        Continue after the trigger: ensure the inbox again, as its state may have changed.

        :param deadline: epoch seconds at which the waiting ends.
        :param recreated: whether it was deleted and created again in this try.
        :raises AirflowException: the event is not one of the trigger's.
        """
        from airflow_provider_workflow.triggers.inbox_active import SETTLED, TIMED_OUT

        status = (event or {}).get("status")
        if status == TIMED_OUT:
            raise InboxNotSettledError(self.name, self.timeout)
        if status != SETTLED:
            raise AirflowException(f"The trigger sent an unknown event: {status!r}")
        return self._wait_until_active(deadline, recreated=recreated)

    def _wait_until_active(
        self, deadline: float, first_pauses: Sequence[float] = (), recreated: bool = False
    ) -> InboxSummary:
        """
        Ensure the inbox until it is active, or defer.

        :param first_pauses: seconds to wait on this worker before the task is deferred.
        """
        from airflow_provider_workflow.client.inboxes import FAILED, PAUSED
        from airflow_provider_workflow.client.wire import plain

        subscription = subscription_of(self.app_key, self.action_key, self.inputs, self.connection_id)
        url = self.notification_url
        if self.notify:
            from airflow_provider_workflow.notifications import checked_url

            url = checked_url(self.name, self.workflow_conn_id, log.warning)
        named = NamedInbox(self.hook, self.name, subscription, url)
        further = () if self.deferrable else doubling(self.poll_interval, self.max_poll_interval)
        pauses = chain(first_pauses, further)
        while (inbox := named.wait_until(self._is_done, pauses, deadline))["status"] == FAILED:
            if recreated or not self.recreate_failed:
                raise InitializationFailedError(self.name, inbox.get("paused_reason"), again=recreated)
            named.delete(inbox)
            recreated = True
        left = deadline - clock.now()
        if self._is_done(inbox):
            if inbox["status"] == PAUSED:
                reason = plain(inbox.get("paused_reason") or "no reason given")
                text = "Inbox %s is paused (%s): new events are dropped until it is resumed (%s)"
                log.warning(text, self.name, reason, "WorkflowResumeInboxOperator")
            self._log_state(named, inbox, "")
            return inbox_summary(inbox)
        if left <= 0 or not self.deferrable:
            raise InboxNotSettledError(self.name, self.timeout)
        self._log_state(named, inbox, "; waiting in the triggerer until it is active")
        self._defer_until_active(inbox["id"], deadline, left, recreated)

    def _is_done(self, inbox: types.Inbox) -> bool:
        from airflow_provider_workflow.client.inboxes import DELETING, SETTLED_STATES

        # An inbox that is being deleted still has the name.
        status = inbox["status"]
        return status in SETTLED_STATES or (not self.wait_until_active and status != DELETING)

    def _log_state(self, named: NamedInbox, inbox: types.Inbox, what_next: str) -> None:
        from airflow_provider_workflow.client.wire import plain

        log.info(
            "Inbox %s %s: id %s, status %s%s",
            self.name,
            "was created" if named.created else "exists",
            plain(inbox["id"]),
            plain(inbox["status"]),
            what_next,
        )

    def _defer_until_active(self, inbox_id: str, deadline: float, left: float, recreated: bool) -> NoReturn:
        from airflow_provider_workflow.triggers.inbox_active import WorkflowInboxActiveTrigger
        from airflow_provider_workflow.triggers.retrying import settle_seconds

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


@dataclass
class NamedInbox:
    """
    The desired state of an inbox, and the calls that reach it; all of them are idempotent.

    :param name: up to 100 characters.
    :param notification_url: None leaves that of an existing inbox unchanged.
    :param created: whether ``ensured`` has created it; False if the answer to the creation was lost.
    """

    hook: WorkflowHook
    name: str
    subscription: types.Subscription
    notification_url: str | None
    created: bool = field(default=False, init=False)

    def ensured(self) -> types.Inbox:
        """
        The inbox of this name, in any state; the one that is being deleted if it still has the name.

        :raises InboxNameTakenError: it has another subscription.
        :raises ConflictError: the name is taken by an inbox that the service does not show.
        """
        from airflow_provider_workflow.client.inboxes import DELETING, FAILED

        url = self.notification_url
        try:
            inbox = self._ensure()
        except ConflictError:
            existing = self._existing()
            if existing is None:
                raise
            if existing["status"] == DELETING:
                return existing
            raise InboxNameTakenError(self.name, self.subscription, existing) from None
        if url is None or inbox.get("notification_url") == url or inbox["status"] in (FAILED, DELETING):
            return inbox
        # Without the URL, which may be a secret.
        log.info("Inbox %s: notification_url was changed", self.name)
        return self.hook.update_inbox(inbox["id"], url)

    def wait_until(
        self, is_done: Callable[[types.Inbox], bool], pauses: Iterator[float], deadline: float
    ) -> types.Inbox:
        """
        Ensure the inbox until ``is_done`` is true.

        :param pauses: seconds between the requests; waiting ends when they are exhausted.
        :param deadline: epoch seconds at which waiting ends.
        :return: the inbox, in its last state.
        """
        inbox = self.ensured()
        while (
            not is_done(inbox)
            and (left := deadline - clock.now()) > 0
            and (pause := next(pauses, None)) is not None
        ):
            clock.sleep(min(pause, left))
            inbox = self.ensured()
        return inbox

    def _ensure(self) -> types.Inbox:
        from airflow_provider_workflow.client import api

        call = api.ensure_inbox(self.name, self.subscription, self.notification_url)

        def read(answer: Answer) -> types.Inbox:
            # 200 for an existing inbox (docs/service.md 4).
            self.created = self.created or answer.status == HTTPStatus.CREATED
            return call.read(answer)

        return self.hook.client.send(replace(call, read=read))

    def _existing(self) -> types.Inbox | None:
        from airflow_provider_workflow.client.inboxes import DELETING

        named = [each for each in self.hook.list_inboxes(name=self.name) if each.get("name") == self.name]
        # An inbox that is being deleted may be listed beside a new one of the same name.
        return min(named, key=lambda inbox: inbox["status"] == DELETING, default=None)

    def delete(self, inbox: types.Inbox) -> None:
        """Delete a failed inbox, so that it can be created again."""
        from airflow_provider_workflow.client.wire import plain

        log.warning(
            "Inbox %s failed to initialize (%s); deleting it and creating it again",
            self.name,
            plain(inbox.get("paused_reason") or "no reason given"),
        )
        # Deleted, or being deleted, already.
        with contextlib.suppress(NotFoundError, ConflictError):
            self.hook.delete_inbox(inbox["id"])


def doubling(first: float, most: float) -> Iterator[float]:
    """Pauses in seconds; each is twice as long as the one before, up to ``most``."""
    while True:
        yield first
        first = min(first * 2, most)
