"""Workflows that the service suggests: of a text, and as templates (docs/service.md 7 and 13)."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_workflow.client import types, wire
from airflow_provider_workflow.client.arguments import PAGE_SIZE, filled, given, within
from airflow_provider_workflow.client.call import Call, Family, Identity


def guess(description: str) -> Call[types.Guess]:
    """
    Guess a workflow from a text (docs/service.md 13).

    :param description: the text; its longest length is not published.
    """
    return Call(
        name="guess",
        method="POST",
        family=Family.GUESS,
        path="/v2/guess",
        read=wire.guess,
        identity=Identity.CLIENT_ID,
        json={"description": filled("description", description)},
        repeatable=False,
    )


def list_templates(
    apps: Sequence[str] | None = None, limit: int = PAGE_SIZE, offset: int = 0
) -> Call[list[types.Template]]:
    """
    One page of templates (docs/service.md 7).

    :param apps: only templates that use these apps.
    :param limit: templates in the page, 1 to 100.
    :param offset: templates to pass over, 0 or more.
    """
    if isinstance(apps, str):
        raise ValueError("apps must be a list of app names, not one text")
    query = given(
        apps=",".join(filled("apps", app) for app in apps) if apps else None,
        limit=within("limit", limit, (1, PAGE_SIZE)),
        offset=within("offset", offset, (0, 10**9)),
    )
    return Call(
        "list_templates", "GET", Family.TEMPLATES, "", wire.templates, Identity.CLIENT_ID, query=query
    )
