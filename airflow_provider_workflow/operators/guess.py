"""``WorkflowGuessOperator``: a workflow from a free text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow.links import WorkflowEditorLink
from airflow_provider_workflow.operators.base import WorkflowOperator
from airflow_provider_workflow.options import check_choice, check_text

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_workflow.operators.guessing import SuggestedWorkflow


class WorkflowGuessOperator(WorkflowOperator):
    """
    Guesses a workflow from a free text (docs/service.md 13), and returns it.

    The result has ``title``, ``steps``, ``prefilled_url`` and ``messages``; the task's link "Open
    workflow editor" leads to ``prefilled_url``. The service limits guesses per hour: the call is made
    once per try and never repeated, except where it surely was not taken.

    :param description: what the workflow is to do; its longest length is not published (templated).
    :param on_rejected: where the text describes no workflow, ``fail`` fails the task without a retry,
        and ``skip`` skips it.
    :param workflow_conn_id: id of the Airflow connection (templated).
    """

    template_fields: Sequence[str] = ("description", *WorkflowOperator.template_fields)
    STRINGS = {"description": (), **WorkflowOperator.STRINGS}  # noqa: RUF012 see RendersStrings
    operator_extra_links = (WorkflowEditorLink(),)

    def __init__(self, *, description: str, on_rejected: str = "fail", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.description = check_text("description", description)
        self.on_rejected = check_choice("on_rejected", on_rejected, ("fail", "skip"))

    def execute(self, context: Context) -> SuggestedWorkflow:  # noqa: ARG002 Airflow's signature
        """
        Guess.

        :raises FinalGuessRejectedError: a ``GuessRejectedError`` with the service's reasons in its text.
        :raises AirflowSkipException: the same, where ``on_rejected`` is ``skip``.
        :raises RateLimitError: the hour's guesses are used up.
        :raises WorkflowError: the service cannot be used.
        """
        from airflow_provider_workflow.operators.guessing import guess

        return guess(self.hook, self.description, self.on_rejected)
