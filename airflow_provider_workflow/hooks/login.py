"""Login of a user: checks before and after the authorization page (docs/service.md 10 and 14.3)."""

from __future__ import annotations

import hmac
from urllib.parse import parse_qs

from airflow_provider_workflow.client.errors import ConfigurationError, WorkflowError
from airflow_provider_workflow.client.settings import USER_GRANT, Settings
from airflow_provider_workflow.client.wire import one_line


def check_ready(settings: Settings, scope: str) -> None:
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


def code_of(query: str, expected_state: str) -> str:
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
