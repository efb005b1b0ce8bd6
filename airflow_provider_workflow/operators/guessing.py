"""How a ``WorkflowGuessOperator`` guesses, and what it returns of a guess."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypedDict

from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from airflow_provider_workflow.client import types
from airflow_provider_workflow.client.errors import GuessRejectedError
from airflow_provider_workflow.operators.base import storable
from airflow_provider_workflow.values import plain

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

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


def guess(hook: WorkflowHook, description: str, on_rejected: str) -> SuggestedWorkflow:
    """
    Guess once.

    :raises FinalGuessRejectedError: the text describes no workflow.
    :raises AirflowSkipException: the same, where ``on_rejected`` is ``skip``.
    """
    try:
        found = hook.guess(description)
    except GuessRejectedError as error:
        if on_rejected == "skip":
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
