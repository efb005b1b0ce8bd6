"""``WorkflowGuessOperator``: guesses a workflow from a description."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from airflow_provider_workflow.client.errors import GuessRejectedError
from airflow_provider_workflow.links import WorkflowEditorLink
from airflow_provider_workflow.operators.base import WorkflowOperator, storable
from airflow_provider_workflow.options import check_choice, check_string

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_workflow.client import types

log = logging.getLogger(__name__)


class SuggestedStep(TypedDict):
    """The best step, and its alternatives (docs/service.md 13.1)."""

    step: types.RawStep
    alternatives: list[types.RawStep]


class SuggestedWorkflow(TypedDict):
    """A guess (docs/service.md 13.1); ``messages`` are the service's remarks on the description."""

    title: str
    steps: list[SuggestedStep]
    prefilled_url: str
    messages: list[str]


class FinalGuessRejectedError(GuessRejectedError, AirflowFailException):
    """The description describes no workflow; a retry would be rejected again."""


class WorkflowGuessOperator(WorkflowOperator):
    """
    Guesses a workflow from a description (docs/service.md 13), and returns it.

    The result has ``title``, ``steps``, ``prefilled_url`` and ``messages``; the task's link "Open
    workflow editor" opens ``prefilled_url``. The service limits guesses per hour: the call is sent once
    per try, and repeated only if the service certainly did not process it.

    :param description: what the workflow should do; the maximum length is not published (templated).
    :param on_rejected: if the description describes no workflow, ``fail`` fails the task without a retry,
        and ``skip`` skips it.
    :param workflow_conn_id: id of the Airflow connection (templated).
    """

    template_fields: Sequence[str] = ("description", *WorkflowOperator.template_fields)
    STRINGS = {"description": (), **WorkflowOperator.STRINGS}  # noqa: RUF012 see RendersStrings
    operator_extra_links = (WorkflowEditorLink(),)

    def __init__(self, *, description: str, on_rejected: str = "fail", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.description = check_string("description", description)
        self.on_rejected = check_choice("on_rejected", on_rejected, ("fail", "skip"))

    def execute(self, context: Context) -> SuggestedWorkflow:  # noqa: ARG002 Airflow's signature
        """
        Guess the workflow.

        :raises FinalGuessRejectedError: the description was rejected; the text has the reasons.
        :raises AirflowSkipException: the same, if ``on_rejected`` is ``skip``.
        :raises RateLimitError: the limit of guesses per hour is reached.
        :raises WorkflowError: the service cannot be used.
        """
        from airflow_provider_workflow.client.wire import plain

        try:
            found = self.hook.guess(self.description)
        except GuessRejectedError as error:
            if self.on_rejected == "skip":
                # Airflow's own log line does not give the reason.
                log.warning(
                    "The description describes no workflow, so the task is skipped: %s", plain(error.detail)
                )
                raise AirflowSkipException(
                    f"The description describes no workflow: {plain(error.detail)}"
                ) from None
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
    # Free-form objects (docs/service.md 13.1), whose keys an XCom may not be able to hold.
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
