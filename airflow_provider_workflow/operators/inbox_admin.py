"""Operators that pause, resume and delete a trigger inbox (docs/service.md 2.2 and 4)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from airflow_provider_workflow.client.arguments import flag
from airflow_provider_workflow.client.errors import ConflictError
from airflow_provider_workflow.operators.base import WorkflowOperator, end_if_present, storable
from airflow_provider_workflow.options import check_string

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_workflow.client import types
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)


class InboxSummary(TypedDict):
    """
    The fields of an inbox that operators return: without its subscription, which may be large, and its
    ``notification_url``, which may be a secret.
    """

    id: str
    name: str | None
    status: str  #: initializing, active, paused, deleting, initialization_failure
    paused_reason: str | None


class InboxDeletion(TypedDict):
    """The id or name that was given, and whether this call deleted the inbox; False if it did not exist."""

    inbox: str
    deleted: bool


def inbox_summary(inbox: types.Inbox) -> InboxSummary:
    """The fields of an inbox that operators return."""
    return {
        "id": inbox["id"],
        "name": storable(inbox.get("name")),
        "status": inbox["status"],
        "paused_reason": storable(inbox.get("paused_reason")),
    }


def change_inbox(
    hook: WorkflowHook, inbox: str, change: Callable[[str], types.Inbox], already: tuple[str, ...]
) -> types.Inbox:
    """
    Change the state of an inbox; succeed if it has the desired state already, as after an earlier try.

    :param inbox: id or name.
    :param change: the call that changes it.
    :param already: states that count as success although the service answers 409.
    :raises InboxUnusableError: the inbox failed to initialize.
    :raises ConflictError: the inbox is in a state that this call cannot change.
    """
    from airflow_provider_workflow.client.inboxes import FAILED
    from airflow_provider_workflow.client.wire import plain
    from airflow_provider_workflow.dispatch.lease import InboxUnusableError

    try:
        found = change(inbox)
    except ConflictError:
        found = hook.get_inbox(inbox)
        if found["status"] == FAILED:
            raise InboxUnusableError(inbox, found.get("paused_reason")) from None
        if found["status"] not in already:
            raise
        log.info("Inbox %s is %s already; nothing to do", inbox, plain(found["status"]))
    else:
        log.info("Inbox %s is %s now", inbox, plain(found["status"]))
    return found


class InboxOperator(WorkflowOperator):
    """
    Base class of the operators that change one inbox.

    :param inbox: id or name of the inbox (templated).
    :param workflow_conn_id: id of the Airflow connection (templated).
    """

    template_fields: Sequence[str] = ("inbox", *WorkflowOperator.template_fields)
    STRINGS = {"inbox": (), **WorkflowOperator.STRINGS}  # noqa: RUF012 see RendersStrings

    def __init__(self, *, inbox: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.inbox = check_string("inbox", inbox)


class WorkflowPauseInboxOperator(InboxOperator):
    """
    Pauses an inbox. Its messages stay and can be leased; new events are dropped, not queued.

    It succeeds if the inbox is paused already. Returns its ``id``, ``name``, ``status`` and
    ``paused_reason``.

    :param inbox: id or name of the inbox (templated).
    :param workflow_conn_id: id of the Airflow connection (templated).
    """

    def execute(self, context: Context) -> InboxSummary:  # noqa: ARG002 Airflow's signature
        """
        Pause the inbox.

        :raises NotFoundError: there is no such inbox.
        :raises InboxUnusableError: it failed to initialize.
        :raises ConflictError: it is in a state that cannot be paused.
        :raises WorkflowError: the service cannot be used.
        """
        from airflow_provider_workflow.client.inboxes import PAUSED

        return inbox_summary(change_inbox(self.hook, self.inbox, self.hook.pause_inbox, (PAUSED,)))


class WorkflowResumeInboxOperator(InboxOperator):
    """
    Resumes a paused inbox. It may be ``initializing`` for a while; the operator does not wait for that.

    It succeeds if the inbox is active or initializing already. Returns its ``id``, ``name``,
    ``status`` and ``paused_reason``.

    :param inbox: id or name of the inbox (templated).
    :param workflow_conn_id: id of the Airflow connection (templated).
    """

    def execute(self, context: Context) -> InboxSummary:  # noqa: ARG002 Airflow's signature
        """
        Resume the inbox.

        :raises NotFoundError: there is no such inbox.
        :raises InboxUnusableError: it failed to initialize.
        :raises ConflictError: it is in a state that cannot be resumed.
        :raises WorkflowError: the service cannot be used.
        """
        from airflow_provider_workflow.client.inboxes import ACTIVE, INITIALIZING

        already = (ACTIVE, INITIALIZING)
        return inbox_summary(change_inbox(self.hook, self.inbox, self.hook.resume_inbox, already))


class WorkflowDeleteInboxOperator(InboxOperator):
    """
    Deletes an inbox with all its messages, for good. It succeeds if the inbox does not exist.

    :param inbox: id or name of the inbox (templated).
    :param missing_ok: False fails the task if the inbox does not exist; then a retry after a lost answer
        fails too.
    :param workflow_conn_id: id of the Airflow connection (templated).
    """

    def __init__(self, *, missing_ok: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.missing_ok = flag("missing_ok", missing_ok)

    def execute(self, context: Context) -> InboxDeletion:  # noqa: ARG002 Airflow's signature
        """
        Delete the inbox.

        :raises NotFoundError: there is no such inbox, and ``missing_ok`` is False.
        :raises ConflictError: the service does not delete it in its current state.
        :raises WorkflowError: the service cannot be used.
        """
        deleted = end_if_present(f"Inbox {self.inbox}", "deleted", self._delete, self.missing_ok)
        return {"inbox": self.inbox, "deleted": deleted}

    def _delete(self) -> None:
        from airflow_provider_workflow.client.inboxes import DELETING

        try:
            self.hook.delete_inbox(self.inbox)
        except ConflictError:
            if self.hook.get_inbox(self.inbox)["status"] != DELETING:
                raise
            log.info("Inbox %s is being deleted already", self.inbox)
