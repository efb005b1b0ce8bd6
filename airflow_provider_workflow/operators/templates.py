"""``WorkflowTemplatesOperator``: the service's workflow templates."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from airflow_provider_workflow.client.arguments import at_least_one, filled
from airflow_provider_workflow.operators.base import WorkflowOperator, storable
from airflow_provider_workflow.options import known_later, whole_number
from airflow_provider_workflow.rendering import ABSENT

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_workflow.client import types

log = logging.getLogger(__name__)


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
    STRINGS = {"apps": (list, tuple, ABSENT), **WorkflowOperator.STRINGS}  # noqa: RUF012 see RendersStrings

    def __init__(
        self, *, apps: Sequence[str] | str | None = None, limit: int | str | None = 100, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.apps = apps
        self.limit = limit
        if not known_later(apps):
            # Jinja templates in the list are checked after they are rendered.
            app_list([app for app in apps if not known_later(app)] if isinstance(apps, list) else apps)
        if limit is not None and not known_later(limit):
            at_least_one("limit", whole_number(limit))

    def execute(self, context: Context) -> list[TemplateSummary]:  # noqa: ARG002 Airflow's signature
        """
        List templates.

        :raises ValueError: the rendered ``apps`` or ``limit`` is invalid.
        :raises WorkflowError: the service cannot be used.
        """
        apps = app_list(self.apps)
        found = self.hook.list_templates(apps, whole_number(self.limit))
        log.info("Found %d workflow templates for %s", len(found), ", ".join(apps) if apps else "all apps")
        return [_summary(template) for template in found]


def app_list(apps: Any) -> list[str] | None:
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
    return {
        "id": template.get("id"),
        "title": storable(template.get("title")),
        "slug": storable(template.get("slug")),
        "status": storable(template.get("status")),
        "description_plain": storable(template.get("description_plain")),
        "url": storable(template.get("url")),
        "create_url": storable(template.get("create_url")),
        "steps": [
            {"title": storable(step.get("title")), "api": storable(step.get("api"))}
            for step in template.get("steps") or []
        ],
    }
