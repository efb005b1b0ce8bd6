"""Commands that make one call of the service each: ``guess``, ``templates`` and ``token``."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime

from airflow_provider_workflow import clock
from airflow_provider_workflow.cli import output
from airflow_provider_workflow.cli.running import Exit, hook_of
from airflow_provider_workflow.client.api import access_token_of, times_of

SHOWN_CHARACTERS = 4
"""The last characters of a token: enough to tell two tokens apart, and useless to an attacker."""


def guess(args: Namespace) -> int:
    """
    Guess a workflow from a text.

    :raises GuessRejectedError: the text describes no workflow.
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


def token(args: Namespace) -> int:
    """
    Get an access token, and show it masked; unmasked with ``--show``.

    :raises AuthenticationError: the service issues no token.
    """
    found = hook_of(args).access_token(args.scope)
    value = access_token_of(found)
    if args.show:
        output.write(value)
        return Exit.OK
    seconds = int(times_of(found, 0)[1])
    ends = datetime.fromtimestamp(clock.now() + seconds, UTC)
    shown = {
        # Nothing of a short token is shown: it would reveal too much of it.
        "access_token": output.MASK
        + (value[-SHOWN_CHARACTERS:] if len(value) >= 8 * SHOWN_CHARACTERS else ""),
        "expires_in": seconds,
        "expires_at": ends.isoformat(timespec="seconds"),
        "scope": found.get("scope") or args.scope,
    }
    output.show(args.output, shown, output.fields(shown))
    return Exit.OK
