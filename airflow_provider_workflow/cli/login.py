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
from airflow_provider_workflow.client.wire import one_line
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
    _check_ready(hook.settings, scope)
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


def _check_ready(settings: Settings, scope: str) -> None:
    """
    Check that a user can log in for this connection, before the authorization page is opened.

    :param scope: space-separated scopes that the user is asked to grant.
    :raises ConfigurationError: names every missing or invalid field.
    """
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
    if problems:
        raise ConfigurationError(problems)


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
        return _code_of(urlsplit(pasted.strip()).query, state)
    except ValueError as error:
        raise WorkflowError(f"The pasted URL cannot be used: {error}. Run the command again.") from None


def _code_of(query: str, expected_state: str) -> str:
    """
    The code in the query of a redirect, after a check of its ``state`` (docs/service.md 14.3).

    :param query: the query of the URL to which the authorization page redirected the browser.
    :param expected_state: the ``state`` that was passed to ``authorization_url``.
    :raises ValueError: the redirect is invalid or belongs to another login; the user can enter another URL.
    :raises WorkflowError: the user or the service denied the authorization (RFC 6749, section 4.1.2.1).
    """
    fields = parse_qs(query, keep_blank_values=True, max_num_fields=50)
    if any(len(fields.get(name, [])) > 1 for name in ("state", "code", "error")):
        raise ValueError("the URL has state, code or error more than once")
    if not hmac.compare_digest(fields.get("state", [""])[0].encode(), expected_state.encode()):
        raise ValueError("state is not the one that was sent: the redirect does not belong to this login")
    if "error" in fields:
        reason = one_line(fields.get("error_description", ["no reason"])[0])
        raise WorkflowError(f"The authorization page answered {one_line(fields['error'][0])!r}: {reason}")
    code = fields.get("code", [""])[0]
    if not code:
        raise ValueError("the URL has no code")
    return code
