"""Operators beside inboxes: guess a workflow, list workflow templates, end an enrollment in a promotion."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from airflow_provider_workflow.client.arguments import at_least_one, filled, flag
from airflow_provider_workflow.client.errors import GuessRejectedError
from airflow_provider_workflow.links import WorkflowEditorLink
from airflow_provider_workflow.operators.base import WorkflowOperator, end_if_present, storable
from airflow_provider_workflow.options import (
    check_choice,
    check_string,
    known_later,
    rendered,
    whole_number,
)

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_workflow import types

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
            guess = self.hook.guess(rendered("description", self.description))
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
        log.info("Guessed a workflow of %d steps", len(guess["steps"]))
        guessed: SuggestedWorkflow = storable(
            {
                "title": guess["title"],
                "steps": [_step(step) for step in guess["steps"]],
                "prefilled_url": guess["prefilled_url"],
                "messages": _remarks(guess.get("messages")),
            }
        )
        return guessed


def _remarks(messages: Any) -> list[str]:
    # Free-form objects (docs/service.md 13.1), whose keys an XCom may not be able to hold.
    remarks = messages if isinstance(messages, list) else []
    details = [remark.get("detail") for remark in remarks if isinstance(remark, dict)]
    return [detail for detail in details if isinstance(detail, str)]


def _step(step: types.GuessStep) -> SuggestedStep:
    return {
        "step": _raw(step["step"]),
        "alternatives": [_raw(alternative) for alternative in step.get("alternatives") or []],
    }


def _raw(step: types.RawStep) -> types.RawStep:
    return {"title": step.get("title"), "app": step["app"], "api": step["api"]}


class TemplateStep(TypedDict):
    """A step of a template: its app's name, and the identifier of the integration it uses."""

    title: str | None
    api: str | None


class TemplateSummary(TypedDict):
    """The fields of a template that the operator returns; None for a field that the service omits."""

    id: int | None
    title: str | None
    slug: str | None
    status: str | None  #: draft, published
    description_plain: str | None
    url: str | None
    create_url: str | None
    steps: list[TemplateStep]


class WorkflowTemplatesOperator(WorkflowOperator):
    """
    Returns workflow templates (docs/service.md 7).

    Each template has ``id``, ``title``, ``slug``, ``status``, ``description_plain``, ``url``,
    ``create_url`` and the ``title`` and ``api`` of its ``steps``: usually less than 1 kB, so that
    hundreds fit an XCom. ``WorkflowHook.list_templates`` returns all fields.

    :param apps: only templates that use these apps: a list, or one string separated by commas
        (templated); None or empty for all.
    :param limit: maximum number of templates, 1 or more (templated); None for all.
    :param workflow_conn_id: id of the Airflow connection (templated).
    """

    template_fields: Sequence[str] = ("apps", "limit", *WorkflowOperator.template_fields)

    def __init__(
        self, *, apps: Sequence[str] | str | None = None, limit: int | str | None = 100, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.apps = apps
        self.limit = limit
        if not known_later(apps):
            # Jinja templates in the list are checked after they are rendered.
            _app_list([app for app in apps if not known_later(app)] if isinstance(apps, list) else apps)
        if limit is not None and not known_later(limit):
            at_least_one("limit", whole_number(limit))

    def execute(self, context: Context) -> list[TemplateSummary]:  # noqa: ARG002 Airflow's signature
        """
        List templates.

        :raises ValueError: the rendered ``apps`` or ``limit`` is invalid.
        :raises WorkflowError: the service cannot be used.
        """
        apps = _app_list(self.apps)
        templates = self.hook.list_templates(apps, whole_number(self.limit))
        log.info(
            "Found %d workflow templates for %s", len(templates), ", ".join(apps) if apps else "all apps"
        )
        return [_summary(template) for template in templates]


def _app_list(apps: Any) -> list[str] | None:
    """
    The apps as a list; None for all of them.

    :raises ValueError: an app is empty or not a string.
    """
    if isinstance(apps, str):
        apps = [app.strip() for app in apps.split(",") if app.strip()]
    if apps is not None and not isinstance(apps, (list, tuple)):
        raise ValueError(f"apps must be a list of app names, not a {type(apps).__name__}")
    return [filled("apps", app) for app in apps] if apps else None


def _summary(template: types.Template) -> TemplateSummary:
    steps = template.get("steps") or []
    summary: Any = {name: template.get(name) for name in TemplateSummary.__annotations__}
    summary["steps"] = [{"title": step.get("title"), "api": step.get("api")} for step in steps]
    stored: TemplateSummary = storable(summary)
    return stored


class Unenrollment(TypedDict):
    """The id of the enrollment, and whether this call ended it; False if it did not exist."""

    enrollment_id: str
    unenrolled: bool


class WorkflowUnenrollOperator(WorkflowOperator):
    """
    Ends a user's enrollment in a promotion, on behalf of the application (docs/service.md 8 and 14).

    It uses an app token with the scope ``promotions:write``, whatever the connection's scope is. It is
    idempotent: it succeeds if the enrollment does not exist.

    :param enrollment_id: id of the enrollment (templated).
    :param missing_ok: False fails the task if the enrollment does not exist; then a retry after a lost
        answer fails too.
    :param workflow_conn_id: id of the Airflow connection (templated).
    """

    template_fields: Sequence[str] = ("enrollment_id", *WorkflowOperator.template_fields)

    def __init__(self, *, enrollment_id: str, missing_ok: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.enrollment_id = check_string("enrollment_id", enrollment_id)
        self.missing_ok = flag("missing_ok", missing_ok)

    def execute(self, context: Context) -> Unenrollment:  # noqa: ARG002 Airflow's signature
        """
        End the enrollment.

        :raises NotFoundError: there is no such enrollment, and ``missing_ok`` is False.
        :raises AuthenticationError: the application is not permitted to do this.
        :raises WorkflowError: the service cannot be used.
        """
        self.enrollment_id = rendered("enrollment_id", self.enrollment_id)
        done = end_if_present(
            f"Enrollment {self.enrollment_id}",
            "ended",
            lambda: self.hook.unenroll_promotion(self.enrollment_id),
            self.missing_ok,
        )
        return {"enrollment_id": self.enrollment_id, "unenrolled": done}
