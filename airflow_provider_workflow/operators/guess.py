"""``WorkflowGuessOperator``: a workflow from a free text."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from airflow_provider_workflow.client.errors import GuessRejectedError
from airflow_provider_workflow.links import WorkflowEditorLink
from airflow_provider_workflow.operators.base import WorkflowOperator, storable
from airflow_provider_workflow.options import check_choice, check_text

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_workflow.client import types

log = logging.getLogger(__name__)


class SuggestedStep(TypedDict):
    """The best step, and what else may have been meant (docs/service.md 13.1)."""

    step: types.RawStep
    alternatives: list[types.RawStep]


class SuggestedWorkflow(TypedDict):
    """A guess (docs/service.md 13.1); ``messages`` are the service's remarks on the text, often none."""

    title: str
    steps: list[SuggestedStep]
    prefilled_url: str
    messages: list[str]


class FinalGuessRejectedError(GuessRejectedError, AirflowFailException):
    """The text describes no workflow. Sent again it would be refused again, so there is no retry."""


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
        from airflow_provider_workflow.client.wire import plain

        try:
            found = self.hook.guess(self.description)
        except GuessRejectedError as error:
            if self.on_rejected == "skip":
                # Airflow's own line about a skipped task does not say why.
                log.warning("The text describes no workflow, so the task is skipped: %s", plain(error.detail))
                raise AirflowSkipException(f"The text describes no workflow: {plain(error.detail)}") from None
            raise FinalGuessRejectedError(
                str(error), status=error.status, code=error.code, detail=error.detail, meta=error.meta
            ) from None
        log.info("Guessed a workflow of %d steps", len(found["steps"]))
        return {
            "title": storable(found["title"]),
            "steps": [_step(each) for each in found["steps"]],
            "prefilled_url": storable(found["prefilled_url"]),
            "messages": [storable(text) for text in _remarks(found)],
        }


def _remarks(guess: types.Guess) -> list[str]:
    # Free-form objects (docs/service.md 13.1): an XCom could not hold every key they might have.
    remarks: Any = guess.get("messages")
    found = remarks if isinstance(remarks, list) else []
    details = [each.get("detail") for each in found if isinstance(each, dict)]
    return [detail for detail in details if isinstance(detail, str)]


def _step(step: types.GuessStep) -> SuggestedStep:
    return {
        "step": _raw(step["step"]),
        "alternatives": [_raw(each) for each in step.get("alternatives") or []],
    }


def _raw(step: types.RawStep) -> types.RawStep:
    return {"title": storable(step.get("title")), "app": storable(step["app"]), "api": storable(step["api"])}
