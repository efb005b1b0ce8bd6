"""Operators that pause, resume and delete a trigger inbox (specification 3.1, service facts 4)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from airflow_provider_workflow.client import types
from airflow_provider_workflow.client.arguments import flag
from airflow_provider_workflow.client.errors import ConflictError
from airflow_provider_workflow.client.inbox_states import ACTIVE, DELETING, FAILED, INITIALIZING, PAUSED
from airflow_provider_workflow.leasing import InboxUnusableError
from airflow_provider_workflow.operators.base import WorkflowOperator, ended, storable
from airflow_provider_workflow.options import check_text

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)


class InboxSummary(TypedDict):
    """
    What is returned of an inbox: not its subscription, which may be large, and not its
    ``notification_url``, which is a secret where it leads to the receiver.
    """

    id: str
    name: str | None
    status: str  # initializing, active, paused, deleting, initialization_failure
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


class InboxOperator(WorkflowOperator):
    """
    Does something to one inbox.

    :param inbox: id or name of the inbox (templated).
    :param workflow_conn_id: id of the Airflow connection (templated).
    """

    template_fields: Sequence[str] = ("inbox", *WorkflowOperator.template_fields)

    def __init__(self, *, inbox: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.inbox = check_text("inbox", inbox)


class InboxStateOperator(InboxOperator):
    """
    Brings an inbox into a state. One that is there already is a success: a retry may find it so.

    :param inbox: id or name of the inbox (templated).
    :param workflow_conn_id: id of the Airflow connection (templated).
    """

    already: ClassVar[tuple[str, ...]]
    """States in which the service answers with 409, and that are what was asked for."""

    def execute(self, context: Context) -> InboxSummary:  # noqa: ARG002 Airflow's signature
        """
        Bring the inbox into the state.

        :raises NotFoundError: there is no such inbox.
        :raises InboxUnusableError: it failed to initialise.
        :raises ConflictError: it is in a state that this call cannot lead out of.
        :raises WorkflowError: the service cannot be used.
        """
        try:
            inbox = self.change()
        except ConflictError:
            inbox = self.hook.get_inbox(self.inbox)
            if inbox["status"] == FAILED:
                raise InboxUnusableError(self.inbox, inbox.get("paused_reason")) from None
            if inbox["status"] not in self.already:
                raise
            log.info("Inbox %s is %s already; nothing to do", self.inbox, inbox["status"])
        else:
            log.info("Inbox %s is %s now", self.inbox, inbox["status"])
        return inbox_summary(inbox)

    def change(self) -> types.Inbox:
        """Ask for the state."""
        raise NotImplementedError


class WorkflowPauseInboxOperator(InboxStateOperator):
    """
    Pauses an inbox. The messages in it stay and can be leased; new events are dropped, not queued.

    An inbox that is paused already is a success. Returns its ``id``, ``name``, ``status`` and
    ``paused_reason``.

    :param inbox: id or name of the inbox (templated).
    :param workflow_conn_id: id of the Airflow connection (templated).
    """

    already = (PAUSED,)

    def change(self) -> types.Inbox:
        return self.hook.pause_inbox(self.inbox)


class WorkflowResumeInboxOperator(InboxStateOperator):
    """
    Resumes a paused inbox, which may be ``initializing`` for a while; it is not waited for.

    An inbox that is active or initializing already is a success. Returns its ``id``, ``name``,
    ``status`` and ``paused_reason``.

    :param inbox: id or name of the inbox (templated).
    :param workflow_conn_id: id of the Airflow connection (templated).
    """

    already = (ACTIVE, INITIALIZING)

    def change(self) -> types.Inbox:
        return self.hook.resume_inbox(self.inbox)


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
        done = ended(f"Inbox {self.inbox}", self._delete, self.missing_ok)
        return {"inbox": self.inbox, "deleted": done}

    def _delete(self) -> None:
        try:
            self.hook.delete_inbox(self.inbox)
        except ConflictError:
            if self.hook.get_inbox(self.inbox)["status"] != DELETING:
                raise
            log.info("Inbox %s is being deleted already", self.inbox)
