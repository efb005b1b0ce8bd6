"""``token``: gets an access token."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime

from airflow_provider_workflow import clock
from airflow_provider_workflow.cli import output
from airflow_provider_workflow.cli.common import Exit, hook_of
from airflow_provider_workflow.client.api import token_of

SHOWN_CHARACTERS = 4
"""The last characters of a token: enough to tell two apart."""


def token(args: Namespace) -> int:
    """
    Get an access token, and show it masked; unmasked with ``--show``.

    :raises AuthenticationError: the service issues no token.
    """
    answer = hook_of(args).access_token(args.scope)
    value, _, lifetime = token_of(answer, 0)
    if args.show:
        output.write(value)
        return Exit.OK
    seconds = int(lifetime)
    ends = datetime.fromtimestamp(clock.now() + seconds, UTC)
    # Nothing of a short token is shown: it would reveal too much of it.
    end = value[-SHOWN_CHARACTERS:] if len(value) >= 8 * SHOWN_CHARACTERS else ""
    result = {
        "access_token": output.MASK + end,
        "expires_in": seconds,
        "expires_at": ends.isoformat(timespec="seconds"),
        "scope": answer.get("scope") or args.scope,
    }
    output.show(args.output, result, output.fields(result))
    return Exit.OK
