"""``login``: a user authorizes the application in a browser (docs/service.md 10 and 14.3)."""

from __future__ import annotations

import hmac
import secrets
import sys
from argparse import Namespace
from urllib.parse import parse_qs, urlsplit

from airflow_provider_workflow.cli import output
from airflow_provider_workflow.cli.common import Exit, hook_of
from airflow_provider_workflow.client.errors import ConfigurationError, WorkflowError
from airflow_provider_workflow.client.settings import USER_GRANT, Settings
from airflow_provider_workflow.hooks.user_tokens import variable_name
from airflow_provider_workflow.text import one_line


def login(args: Namespace) -> int:
    """
    Log a user in for a connection.

    :param args: ``conn_id``; ``scope``, None for the connection's.
    :raises ConfigurationError: a field of the connection is missing or wrong.
    :raises WorkflowError: no valid URL was pasted, or the service or the database fails.
    """
    hook = hook_of(args)
    scope = args.scope or hook.settings.scope
    if problems := _problems(hook.settings, scope):
        raise ConfigurationError(problems)
    state = secrets.token_urlsafe(32)
    output.note("Open this URL in a browser, on any machine, and approve:")
    output.write(hook.authorization_url(scope=scope, state=state))
    output.note(
        f"The browser is then redirected to {hook.settings.redirect_uri}; that page need not exist."
        " Within 2 minutes, paste the whole URL from its address bar, and press Enter:"
    )
    code = _code_of(sys.stdin.readline().strip(), state)
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
    needed = set(hook.settings.scope.split())
    if isinstance(granted, str) and (missing := needed - set(granted.split())):
        output.note(
            f"Warning: the connection's scope needs {' '.join(sorted(missing))}, which was not granted."
        )
    return Exit.OK


def _problems(settings: Settings, scope: str) -> list[str]:
    """What keeps a user from logging in, with these scopes."""
    problems = []
    if settings.grant != USER_GRANT:
        problems.append(f"grant is {settings.grant} (set it to {USER_GRANT} to use a user's tokens)")
    if not settings.auth_url:
        problems.append("auth_url is missing (set the base URL of the authorization page in Extra)")
    if not settings.redirect_uri:
        problems.append("redirect_uri is missing (set one of those configured for your application in Extra)")
    if missing := set(settings.scope.split()) - set(scope.split()):
        problems.append(
            f"scope needs {' '.join(sorted(missing))}, which the user is not asked to grant"
            " (request it too, or change the connection's scope)"
        )
    return problems


def _code_of(url: str, state: str) -> str:
    """
    The code in the URL of a redirect, after a check of its ``state`` (docs/service.md 14.3).

    :raises WorkflowError: it is invalid, belongs to another login, or the authorization was denied.
    """
    if not url:
        raise WorkflowError("No URL was pasted. Run the command again.")
    try:
        fields = parse_qs(urlsplit(url).query, keep_blank_values=True, max_num_fields=50)
        if any(len(fields.get(name, [])) > 1 for name in ("state", "code", "error")):
            raise ValueError("the URL has state, code or error more than once")
        if not hmac.compare_digest(fields.get("state", [""])[0].encode(), state.encode()):
            raise ValueError("state is not the one that was sent: the redirect does not belong to this login")
        if "error" not in fields and not any(fields.get("code", [])):
            raise ValueError("the URL has no code")
    except ValueError as error:
        text = f"The pasted URL cannot be used: {error}."
        raise WorkflowError(f"{text} Run the command again.") from None
    if "error" in fields:
        reason = one_line(fields.get("error_description", ["no reason"])[0])
        code = one_line(fields["error"][0])
        raise WorkflowError(f"The authorization page answered {code!r}: {reason}")
    return fields["code"][0]
