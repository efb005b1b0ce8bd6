"""Operators that pause, resume and delete a trigger inbox (docs/service.md 2.2 and 4)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from airflow_provider_workflow.client.arguments import flag
from airflow_provider_workflow.client.errors import ConflictError
from airflow_provider_workflow.operators.base import WorkflowOperator, ended, storable
from airflow_provider_workflow.options import check_text

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_workflow.client import types
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)


class InboxSummary(TypedDict):
    """
    What is returned of an inbox: not its subscription, which may be large, and not its
    ``notification_url``, which is a secret where it leads to the receiver.
    """

    id: str
    name: str | None
    status: str  #: initializing, active, paused, deleting, initialization_failure
    paused_reason: str | None


class InboxDeletion(TypedDict):
    """The inbox as it was given, and whether this call deleted it (else it was gone already)."""

    inbox: str
    deleted: bool


def inbox_summary(inbox: types.Inbox) -> InboxSummary:
    """The fields that fit an XCom, whatever the inbox is subscribed to."""
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
    Change the state of an inbox; where it is as wanted already, an earlier try may have changed it.

    :param inbox: id or name.
    :param change: the call that changes it.
    :param already: states in which the service answers with 409, and that are as wanted.
    :raises InboxUnusableError: it failed to initialise.
    :raises ConflictError: it is in a state that this call cannot change.
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
    Does something to one inbox.

    :param inbox: id or name of the inbox (templated).
    :param workflow_conn_id: id of the Airflow connection (templated).
    """

    template_fields: Sequence[str] = ("inbox", *WorkflowOperator.template_fields)
    STRINGS = {"inbox": (), **WorkflowOperator.STRINGS}  # noqa: RUF012 see RendersStrings

    def __init__(self, *, inbox: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.inbox = check_text("inbox", inbox)


class WorkflowPauseInboxOperator(InboxOperator):
    """
    Pauses an inbox. The messages in it stay and can be leased; new events are dropped, not queued.

    An inbox that is paused already is a success. Returns its ``id``, ``name``, ``status`` and
    ``paused_reason``.

    :param inbox: id or name of the inbox (templated).
    :param workflow_conn_id: id of the Airflow connection (templated).
    """

    def execute(self, context: Context) -> InboxSummary:  # noqa: ARG002 Airflow's signature
        """
        Pause.

        :raises NotFoundError: there is no such inbox.
        :raises InboxUnusableError: it failed to initialise.
        :raises ConflictError: it is in a state that cannot be paused.
        :raises WorkflowError: the service cannot be used.
        """
        from airflow_provider_workflow.client.inboxes import PAUSED

        return inbox_summary(change_inbox(self.hook, self.inbox, self.hook.pause_inbox, (PAUSED,)))


class WorkflowResumeInboxOperator(InboxOperator):
    """
    Resumes a paused inbox, which may be ``initializing`` for a while; it is not waited for.

    An inbox that is active or initializing already is a success. Returns its ``id``, ``name``,
    ``status`` and ``paused_reason``.

    :param inbox: id or name of the inbox (templated).
    :param workflow_conn_id: id of the Airflow connection (templated).
    """

    def execute(self, context: Context) -> InboxSummary:  # noqa: ARG002 Airflow's signature
        """
        Resume.

        :raises NotFoundError: there is no such inbox.
        :raises InboxUnusableError: it failed to initialise.
        :raises ConflictError: it is in a state that cannot be resumed.
        :raises WorkflowError: the service cannot be used.
        """
        from airflow_provider_workflow.client.inboxes import ACTIVE, INITIALIZING

        already = (ACTIVE, INITIALIZING)
        return inbox_summary(change_inbox(self.hook, self.inbox, self.hook.resume_inbox, already))


class WorkflowDeleteInboxOperator(InboxOperator):
    """
    Deletes an inbox with all the messages in it, for good. One that is gone already is a success.

    :param inbox: id or name of the inbox (templated).
    :param missing_ok: False fails the task where there is no such inbox; a retry after an answer that
        was lost then fails as well.
    :param workflow_conn_id: id of the Airflow connection (templated).
    """

    def __init__(self, *, missing_ok: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.missing_ok = flag("missing_ok", missing_ok)

    def execute(self, context: Context) -> InboxDeletion:  # noqa: ARG002 Airflow's signature
        """
        Delete.

        :raises NotFoundError: there is no such inbox, and ``missing_ok`` is False.
        :raises ConflictError: the service does not delete it in its present state.
        :raises WorkflowError: the service cannot be used.
        """
        deleted = ended(f"Inbox {self.inbox}", "deleted", self._delete, self.missing_ok)
        return {"inbox": self.inbox, "deleted": deleted}

    def _delete(self) -> None:
        from airflow_provider_workflow.client.inboxes import DELETING

        try:
            self.hook.delete_inbox(self.inbox)
        except ConflictError:
            if self.hook.get_inbox(self.inbox)["status"] != DELETING:
                raise
            log.info("Inbox %s is being deleted already", self.inbox)
