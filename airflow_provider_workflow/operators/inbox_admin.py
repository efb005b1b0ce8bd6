"""Operators that pause, resume and delete a trigger inbox (docs/service.md 2.2 and 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow.client.arguments import flag
from airflow_provider_workflow.operators.base import WorkflowOperator
from airflow_provider_workflow.options import check_text

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_workflow.operators.inbox_changes import InboxDeletion, InboxSummary


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
        from airflow_provider_workflow.operators.inbox_changes import pause

        return pause(self.hook, self.inbox)


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
        from airflow_provider_workflow.operators.inbox_changes import resume

        return resume(self.hook, self.inbox)


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
        from airflow_provider_workflow.operators.inbox_changes import delete

        return delete(self.hook, self.inbox, self.missing_ok)
