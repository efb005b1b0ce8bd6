"""Operators beside inboxes: guess a workflow, list workflow templates, end an enrollment in a promotion."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from airflow_provider_workflow.client.arguments import ANY_NUMBER, require_int, require_text
from airflow_provider_workflow.client.errors import GuessRejectedError, NotFoundError
from airflow_provider_workflow.links import WorkflowEditorLink
from airflow_provider_workflow.operators.base import WorkflowOperator, retries_transient_errors
from airflow_provider_workflow.options import (
    check_choice,
    check_string,
    known_later,
    rendered,
    whole_number,
)
from airflow_provider_workflow.text import counted, escaped, for_xcom

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)

STEP_FIELDS = ("title", "app", "api")
TEMPLATE_FIELDS = ("id", "title", "slug", "status", "description_plain", "url", "create_url")
"""What is returned of a template, beside its steps."""


class WorkflowGuessOperator(WorkflowOperator):
    """
    Guesses a workflow from a description (docs/service.md 13), and returns it.

    The result has ``title``, ``prefilled_url``, ``messages`` (remarks of the service, as strings) and
    ``steps``, each with the best ``step`` and its ``alternatives``; the task's link "Open workflow editor"
    opens ``prefilled_url``. The service limits guesses per hour: the call is sent once per try, and repeated
    only if the service certainly did not process it.

    :param description: what the workflow should do; the maximum length is not published (templated).
    :param on_rejected: if the description describes no workflow, ``fail`` fails the task without a retry,
        and ``skip`` skips it.
    """

    template_fields: Sequence[str] = ("description", *WorkflowOperator.template_fields)
    operator_extra_links = (WorkflowEditorLink(),)
    MULTIPLE_OUTPUTS = True

    def __init__(
        self, *, description: str, on_rejected: Literal["fail", "skip"] = "fail", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.description = check_string("description", description)
        self.on_rejected = check_choice("on_rejected", on_rejected, ("fail", "skip"))

    @retries_transient_errors
    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002 Airflow's signature
        """
        Guess the workflow.

        :raises AirflowFailException: the description was rejected; the text has the reasons.
        :raises AirflowSkipException: the same, if ``on_rejected`` is ``skip``.
        """

        try:
            guess = self.hook.guess(rendered("description", self.description))
        except GuessRejectedError as error:
            reason = f"The description describes no workflow: {escaped(error.detail)}"
            if self.on_rejected == "fail":
                raise AirflowFailException(reason) from None
            # Airflow's own log line does not give the reason.
            log.warning("%s. The task is skipped", reason.rstrip(". "))
            raise AirflowSkipException(reason) from None
        log.info("Guessed a workflow of %s", counted(len(guess["steps"]), "step"))
        steps = [
            {
                "step": _fields(step["step"], STEP_FIELDS),
                "alternatives": [_fields(other, STEP_FIELDS) for other in step.get("alternatives") or ()],
            }
            for step in guess["steps"]
        ]
        # These objects are free-form (docs/service.md 13.1): an XCom may be unable to hold their keys.
        remarks = _objects(guess.get("messages"))
        details = [remark["detail"] for remark in remarks if isinstance(remark.get("detail"), str)]
        guessed: dict[str, Any] = for_xcom(
            {**_fields(guess, ("title", "prefilled_url")), "steps": steps, "messages": details}
        )
        return guessed


def _fields(source: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Fields of an answer of the service; None for one that is missing."""
    return {name: source.get(name) for name in names}


def _objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; none of what is no list."""
    values = value if isinstance(value, list) else []
    return [item for item in values if isinstance(item, dict)]


class WorkflowTemplatesOperator(WorkflowOperator):
    """
    Returns workflow templates (docs/service.md 7).

    Each template has ``id``, ``title``, ``slug``, ``status``, ``description_plain``, ``url``,
    ``create_url`` and the ``title`` and ``api`` of its ``steps``: usually less than 1 kB, so that
    hundreds fit an XCom. ``WorkflowHook.list_templates`` returns all fields.

    :param apps: only templates that use these apps: a list, or one string separated by commas
        (templated); None or empty for all.
    :param limit: maximum number of templates, 1 or more (templated); None for all.
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
            require_int("limit", whole_number(limit), ANY_NUMBER)

    @retries_transient_errors
    def execute(self, context: Context) -> list[dict[str, Any]]:  # noqa: ARG002 Airflow's signature
        """
        List templates.

        :raises ValueError: the rendered ``apps`` or ``limit`` is invalid.
        """
        apps = _app_list(self.apps)
        templates = self.hook.list_templates(apps, whole_number(self.limit))
        log.info(
            "Found %s for %s",
            counted(len(templates), "workflow template"),
            ", ".join(apps) if apps else "all apps",
        )
        return [
            for_xcom(
                {
                    **_fields(template, TEMPLATE_FIELDS),
                    "steps": [_fields(step, ("title", "api")) for step in _objects(template.get("steps"))],
                }
            )
            for template in templates
        ]


def _app_list(apps: Any) -> list[str] | None:
    """
    The apps as a list; None for all of them.

    :raises ValueError: an app is empty or not a string.
    """
    if isinstance(apps, str):
        apps = [app.strip() for app in apps.split(",") if app.strip()]
    if apps is not None and not isinstance(apps, (list, tuple)):
        raise ValueError(f"apps must be a list of app names, not a {type(apps).__name__}")
    return [require_text("apps", app) for app in apps] if apps else None


class WorkflowUnenrollOperator(WorkflowOperator):
    """
    Ends a user's enrollment in a promotion, on behalf of the application (docs/service.md 8 and 14).

    It uses an app token with the scope ``promotions:write``, whatever the connection's scope is. It succeeds
    if the enrollment does not exist. Returns ``enrollment_id``, and whether it existed as ``unenrolled``.

    :param enrollment_id: id of the enrollment (templated).
    """

    template_fields: Sequence[str] = ("enrollment_id", *WorkflowOperator.template_fields)
    MULTIPLE_OUTPUTS = True

    def __init__(self, *, enrollment_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.enrollment_id = check_string("enrollment_id", enrollment_id)

    @retries_transient_errors
    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002 Airflow's signature
        """
        End the enrollment.

        :raises AuthenticationError: the application is not permitted to do this.
        """
        self.enrollment_id = rendered("enrollment_id", self.enrollment_id)
        try:
            self.hook.unenroll_promotion(self.enrollment_id)
        except NotFoundError as error:
            # An earlier try may have ended it without receiving the answer.
            log.warning("Enrollment %s does not exist; nothing to do (%s)", self.enrollment_id, error)
            return {"enrollment_id": self.enrollment_id, "unenrolled": False}
        log.info("Enrollment %s was ended", self.enrollment_id)
        return {"enrollment_id": self.enrollment_id, "unenrolled": True}
