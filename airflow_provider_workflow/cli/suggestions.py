"""``guess`` and ``templates``: workflows that the service suggests."""

from __future__ import annotations

from argparse import Namespace

from airflow_provider_workflow.cli import output
from airflow_provider_workflow.cli.running import Exit, hook_of


def guess(args: Namespace) -> int:
    """
    Guess a workflow from a text.

    :raises GuessRejectedError: the text describes none.
    """
    found = hook_of(args).guess(args.text)
    steps = [
        {
            "title": each["step"].get("title"),
            "app": each["step"]["app"],
            "api": each["step"]["api"],
            "alternatives": ", ".join(str(other.get("title")) for other in each.get("alternatives") or []),
        }
        for each in found["steps"]
    ]
    head = {"title": found["title"], "prefilled_url": found["prefilled_url"]}
    output.show(args.output, found, output.fields(head), steps)
    return Exit.OK


def templates(args: Namespace) -> int:
    """List workflow templates."""
    apps = None if args.apps is None else [app.strip() for app in args.apps.split(",")]
    found = hook_of(args).list_templates(apps, args.limit)
    rows = [
        {name: template.get(name) for name in ("id", "title", "status", "url", "create_url")}
        for template in found
    ]
    output.show(args.output, found, rows)
    return Exit.OK
