"""``login``: a user authorizes the application in a browser (docs/service.md 14.3)."""

from __future__ import annotations

import secrets
import sys
from argparse import Namespace
from urllib.parse import urlsplit

from airflow_provider_workflow.cli import output
from airflow_provider_workflow.cli.common import Exit, hook_of
from airflow_provider_workflow.client.errors import WorkflowError
from airflow_provider_workflow.hooks import login as rules
from airflow_provider_workflow.hooks.user_tokens import variable_name

STATE_BYTES = 32


def login(args: Namespace) -> int:
    """
    Log a user in for a connection.

    :param args: ``conn_id``; ``scope``, None for the connection's.
    :raises ConfigurationError: a field of the connection is missing or wrong.
    :raises WorkflowError: no valid URL was pasted, or the service or the database fails.
    """
    hook = hook_of(args)
    scope = args.scope or hook.settings.scope
    rules.check_ready(hook.settings, scope)
    state = secrets.token_urlsafe(STATE_BYTES)
    output.note("Open this URL in a browser, on any machine, and approve:")
    output.write(hook.authorization_url(scope=scope, state=state))
    code = _pasted_code(hook.settings.redirect_uri, state)
    try:
        token = hook.exchange_code(code)
        hook.store_user_tokens(token)
    except WorkflowError:
        output.note("No tokens were stored. Run the command again: a code is valid once.")
        raise
    connection_id, granted = hook.settings.connection_id, token.get("scope")
    output.note(
        f"Logged in. The tokens of the connection {connection_id!r} are stored in the Airflow Variable"
        f" {variable_name(connection_id)!r}; tasks and triggers renew them."
    )
    if isinstance(granted, str) and (missing := set(hook.settings.scope.split()) - set(granted.split())):
        output.note(
            f"Warning: the connection's scope needs {' '.join(sorted(missing))}, which was not granted."
        )
    return Exit.OK


def _pasted_code(redirect_uri: str, state: str) -> str:
    """The code from the URL that the user copies from the browser."""
    output.note(
        f"The browser is then redirected to {redirect_uri}; that page need not exist."
        " Within 2 minutes, paste the whole URL from its address bar, and press Enter:"
    )
    pasted = sys.stdin.readline()
    if not pasted.strip():
        raise WorkflowError("No URL was pasted. Run the command again.")
    try:
        return rules.code_of(urlsplit(pasted.strip()).query, state)
    except ValueError as error:
        raise WorkflowError(f"The pasted URL cannot be used: {error}. Run the command again.") from None
