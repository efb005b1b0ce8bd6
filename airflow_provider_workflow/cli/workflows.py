"""``guess`` and ``templates``: workflows for the editor of the service."""

from __future__ import annotations

from argparse import Namespace

from airflow_provider_workflow.cli import output
from airflow_provider_workflow.cli.common import Exit, hook_of


def guess(args: Namespace) -> int:
    """
    Guess a workflow from a text.

    :raises GuessRejectedError: the text describes no workflow.
    """
    answer = hook_of(args).guess(args.text)
    steps = [
        {
            "title": guessed["step"].get("title"),
            "app": guessed["step"]["app"],
            "api": guessed["step"]["api"],
            "alternatives": ", ".join(
                str(other.get("title") or other.get("app")) for other in guessed.get("alternatives") or []
            ),
        }
        for guessed in answer["steps"]
    ]
    head = {"title": answer["title"], "prefilled_url": answer["prefilled_url"]}
    output.show(args.output, answer, output.fields(head), steps)
    return Exit.OK


def templates(args: Namespace) -> int:
    """List workflow templates."""
    apps = None if args.apps is None else [app.strip() for app in args.apps.split(",")]
    listed = hook_of(args).list_templates(apps, args.limit)
    columns = ("id", "title", "status")
    rows = [{name: template.get(name) for name in columns} for template in listed]
    output.show(args.output, listed, rows)
    return Exit.OK
