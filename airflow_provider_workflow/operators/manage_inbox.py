"""Operators that ensure, pause, resume and delete a trigger inbox (docs/service.md 2.2 and 4)."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from airflow_provider_workflow import clock
from airflow_provider_workflow.client.arguments import NAME_LENGTH, URL_LENGTH, require_bool, seconds
from airflow_provider_workflow.client.errors import ConflictError, NotFoundError
from airflow_provider_workflow.inbox_names import name_of
from airflow_provider_workflow.operators.base import WorkflowOperator, retries_transient_errors
from airflow_provider_workflow.options import check_output, check_string, known_later, rendered, whole_number
from airflow_provider_workflow.source import problem_of
from airflow_provider_workflow.text import for_xcom
from airflow_provider_workflow.types import ACTIVE, DELETING, FAILED, INITIALIZING, PAUSED, SETTLED_STATES

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_workflow import types
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)

FIRST_POLL_PAUSE_SECONDS = 1.0
"""A new inbox is ``initializing`` at first, and often active soon."""
MAX_SUBSCRIPTION_LENGTH = 1000
"""Characters of a subscription in an error."""
MAX_POLL_PAUSE_SECONDS = 60.0


def change_inbox(
    hook: WorkflowHook, inbox: str, change: Callable[[str], types.Inbox], already: tuple[str, ...]
) -> types.Inbox:
    """
    Change the state of an inbox; succeed if it has the desired state already, as after an earlier try.

    :param inbox: id or name.
    :param change: the call that changes it.
    :param already: states that count as success although the service answers 409.
    :raises AirflowFailException: the inbox failed to initialize.
    :raises ConflictError: the inbox is in a state that this call cannot change.
    """
    from airflow_provider_workflow.text import escaped

    try:
        changed = change(inbox)
    except ConflictError:
        changed = hook.get_inbox(inbox)
        _check_initialized(changed, inbox, hook)
        if changed["status"] not in already:
            raise
        text = "Inbox %s is %s already; nothing to do"
    else:
        text = "Inbox %s is %s now"
    log.info(text, escaped(changed.get("name") or inbox), escaped(changed["status"]))
    return changed


def _check_initialized(inbox: types.Inbox, name: str, hook: WorkflowHook) -> None:
    """:raises AirflowFailException: the inbox failed to initialize, which no retry corrects."""
    problem = problem_of(inbox, inbox.get("name") or name, hook.workflow_conn_id)
    if problem is not None and inbox["status"] == FAILED:
        raise AirflowFailException(problem.text)


def subscription_of(app_key: str, action_key: str, inputs: Any, connection_id: Any) -> types.Subscription:
    """
    Make a subscription. Numbers may be given as strings, from a template or a command line.

    :raises ValueError: the inputs are not a mapping.
    """
    _check_inputs(inputs)
    subscription: types.Subscription = {
        "app_key": app_key,
        "action_key": action_key,
        "inputs": dict(inputs or {}),
    }
    if connection_id is not None:
        subscription["connection_id"] = whole_number(connection_id)
    return subscription


def _check_inputs(inputs: Any) -> None:
    check_output("inputs", inputs)
    if inputs is not None and not isinstance(inputs, Mapping):
        raise ValueError(
            f"inputs must be a dictionary, not a {type(inputs).__name__}; for a dictionary from"
            " a template, set render_template_as_native_obj=True on the DAG, or give another task's output"
        )


def ensure_inbox(
    hook: WorkflowHook, name: str, subscription: types.Subscription, notification_url: str | None
) -> types.Inbox:
    """
    Create an inbox, or find the one of this name, in any state; it is idempotent.

    :param name: up to 100 characters.
    :param notification_url: None leaves that of an existing inbox unchanged.
    :return: the inbox; the one that is being deleted if it still has the name.
    :raises AirflowFailException: the inbox of this name has another subscription.
    :raises ConflictError: the name is taken by an inbox that the service does not show.
    """
    try:
        inbox = hook.ensure_inbox(name, subscription, notification_url)
    except ConflictError:
        named = [inbox for inbox in hook.list_inboxes(name=name) if inbox.get("name") == name]
        if not named:
            raise
        # An inbox that is being deleted may be listed beside a new one of the same name.
        existing = min(named, key=lambda inbox: inbox["status"] == DELETING)
        if existing["status"] == DELETING:
            return existing
        raise AirflowFailException(_name_taken(name, subscription, existing)) from None
    changes = notification_url is not None and notification_url != inbox.get("notification_url")
    if not changes or inbox["status"] in (FAILED, DELETING):
        return inbox
    # Without the URL, which may be a secret.
    log.info("Inbox %s: notification_url was changed", name)
    return hook.update_inbox(inbox["id"], notification_url)


def settled_inbox(
    hook: WorkflowHook,
    name: str,
    subscription: types.Subscription,
    notification_url: str | None,
    *,
    timeout: float,
    wait_until_active: bool,
) -> types.Inbox:
    """
    Ensure an inbox, and wait until it is active or paused; see ``WorkflowEnsureInboxOperator``.

    :param timeout: maximum seconds to wait.
    :param wait_until_active: False also returns an inbox that is still ``initializing``.
    :raises AirflowFailException: an inbox of this name has another subscription.
    :raises AirflowFailException: the service could not subscribe it.
    :raises AirflowException: it was not active in time.
    """

    deadline, pause = clock.now() + timeout, FIRST_POLL_PAUSE_SECONDS
    while True:
        inbox = ensure_inbox(hook, name, subscription, notification_url)
        status = inbox["status"]
        _check_initialized(inbox, name, hook)
        # An inbox that is being deleted still has the name.
        if status in SETTLED_STATES or (not wait_until_active and status != DELETING):
            return inbox
        if (remaining := deadline - clock.now()) <= 0:
            raise AirflowException(
                f"Inbox {name!r} was not active within {timeout:g} s. Check it, or increase timeout."
            )
        clock.sleep(min(pause, remaining))
        pause = min(pause * 2, MAX_POLL_PAUSE_SECONDS)


def _name_taken(name: str, subscription: types.Subscription, existing: types.Inbox) -> str:
    from airflow_provider_workflow.text import escaped

    known = existing.get("subscription")
    requested, taken = (
        escaped(json.dumps(value, sort_keys=True), MAX_SUBSCRIPTION_LENGTH)
        if value
        else "not shown by the service"
        for value in (subscription, known)
    )
    return (
        f"The name {name!r} belongs to inbox {escaped(existing['id'])}, which has another subscription."
        f" Requested: {requested}; existing: {taken}."
        " Choose another name, or delete that inbox first, which deletes its messages too."
    )


def _summary(inbox: types.Inbox) -> dict[str, Any]:
    """
    The fields of an inbox that operators return: without its subscription, which may be large, and its
    ``notification_url``, which may be a secret.
    """
    return {name: for_xcom(inbox.get(name)) for name in ("id", "name", "status", "paused_reason")}


class InboxOperator(WorkflowOperator):
    """
    Base class of the operators that change one inbox.

    :param inbox: id or name of the inbox (templated).
    """

    template_fields: Sequence[str] = ("inbox", *WorkflowOperator.template_fields)
    MULTIPLE_OUTPUTS = True

    def __init__(self, *, inbox: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.inbox = check_string("inbox", inbox)


class WorkflowPauseInboxOperator(InboxOperator):
    """
    Pauses an inbox. Its messages stay and can be leased; new events are dropped, not queued.

    Returns its ``id``, ``name``, ``status`` and ``paused_reason``, also if it is paused already.

    :param inbox: id or name of the inbox (templated).
    """

    @retries_transient_errors
    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002 Airflow's signature
        """Pause the inbox; see :func:`change_inbox` for the errors."""
        self.inbox = rendered("inbox", self.inbox)
        return _summary(change_inbox(self.hook, self.inbox, self.hook.pause_inbox, (PAUSED,)))


class WorkflowResumeInboxOperator(InboxOperator):
    """
    Resumes a paused inbox. It may be ``initializing`` for a while; the operator does not wait for that.

    Returns its ``id``, ``name``, ``status`` and ``paused_reason``, also if it is active already.

    :param inbox: id or name of the inbox (templated).
    """

    @retries_transient_errors
    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002 Airflow's signature
        """Resume the inbox; see :func:`change_inbox` for the errors."""
        self.inbox = rendered("inbox", self.inbox)
        already = (ACTIVE, INITIALIZING)
        return _summary(change_inbox(self.hook, self.inbox, self.hook.resume_inbox, already))


def delete_existing(hook: WorkflowHook, inbox_id: str) -> None:
    """
    Delete an inbox that existed just now; it may be deleted already, by a request whose answer was lost.

    :raises ConflictError: the service does not delete it in its current state.
    """
    with contextlib.suppress(NotFoundError):
        try:
            hook.delete_inbox(inbox_id)
        except ConflictError:
            if hook.get_inbox(inbox_id)["status"] != DELETING:
                raise


class WorkflowDeleteInboxOperator(InboxOperator):
    """
    Deletes an inbox with all its messages, for good. It succeeds if the inbox does not exist.

    Returns ``inbox``, its id or name as it was given, and ``deleted``, which is False if it did not exist.

    :param inbox: id or name of the inbox (templated).
    """

    @retries_transient_errors
    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002 Airflow's signature
        """
        Delete the inbox.

        :raises ConflictError: the service does not delete it in its current state.
        """
        self.inbox = rendered("inbox", self.inbox)
        try:
            inbox_id = self.hook.get_inbox(self.inbox)["id"]
        except NotFoundError as error:
            log.warning("Inbox %s does not exist; nothing to do (%s)", self.inbox, error)
            return {"inbox": self.inbox, "deleted": False}
        delete_existing(self.hook, inbox_id)
        log.info("Inbox %s was deleted", name_of(inbox_id, self.hook.workflow_conn_id))
        return {"inbox": self.inbox, "deleted": True}


class WorkflowEnsureInboxOperator(WorkflowOperator):
    """
    Creates an inbox, or finds the one of this name and subscription, and waits until it is active.

    It is idempotent (docs/service.md 2.2, 4.1 and 11.2). Returns its ``id``, ``name``, ``status`` and
    ``paused_reason``. A paused inbox is not resumed (``WorkflowResumeInboxOperator`` does that).

    :param name: name of the inbox, up to 100 characters; it never changes (templated).
    :param app_key: the app: versioned, versionless, ``@latest`` or a slug (templated).
    :param action_key: key of the event (templated).
    :param inputs: the fields of the event (templated).
    :param connection_id: the account at the app: UUID or whole number; None for none (templated).
    :param notification_url: URL to which the service posts when messages arrive (templated); None leaves
        that of an existing inbox unchanged. Airflow shows the rendered URL on the task's page, unless it
        comes from a Variable whose name contains "secret".
    :param wait_until_active: False also returns an inbox that is still ``initializing``.
    :param timeout: maximum seconds to wait in each try, above 0.
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
    MULTIPLE_OUTPUTS = True

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
        timeout: float = 600,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.name = check_string("name", name, NAME_LENGTH)
        self.app_key = check_string("app_key", app_key)
        self.action_key = check_string("action_key", action_key)
        if not known_later(inputs):
            _check_inputs(inputs)
        self.inputs = inputs
        self.connection_id = connection_id
        self.notification_url = notification_url
        if notification_url is not None:
            check_string("notification_url", notification_url, URL_LENGTH)
        self.wait_until_active = require_bool("wait_until_active", wait_until_active)
        self.timeout = seconds("timeout", timeout)

    @retries_transient_errors
    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002 Airflow's signature
        """
        Ensure the inbox, and wait for it.

        :raises AirflowFailException: an inbox of this name has another subscription; both are in the text.
        :raises AirflowFailException: the service could not subscribe it.
        :raises AirflowException: it was not active in time.
        :raises ValueError: a rendered argument has an invalid value.
        """
        from airflow_provider_workflow.text import escaped

        for field in ("name", "app_key", "action_key"):
            setattr(self, field, rendered(field, getattr(self, field)))
        self.notification_url = rendered("notification_url", self.notification_url, optional=True)
        subscription = subscription_of(self.app_key, self.action_key, self.inputs, self.connection_id)
        inbox = settled_inbox(
            self.hook,
            self.name,
            subscription,
            self.notification_url,
            timeout=self.timeout,
            wait_until_active=self.wait_until_active,
        )
        if inbox["status"] == PAUSED:
            log.warning(
                "Inbox %s is paused (%s): new events are dropped until it is resumed"
                " (WorkflowResumeInboxOperator)",
                self.name,
                escaped(inbox.get("paused_reason") or "no reason given"),
            )
        inbox_id, status = escaped(inbox["id"]), escaped(inbox["status"])
        log.info("Inbox %s exists: id %s, status %s", self.name, inbox_id, status)
        return _summary(inbox)
