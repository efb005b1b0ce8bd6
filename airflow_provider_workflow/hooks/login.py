"""User login: checks of the redirect, and storage of the tokens (docs/service.md 10 and 14.3)."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from urllib.parse import SplitResult, parse_qs, urlsplit

from airflow_provider_workflow import airflow_internals, types
from airflow_provider_workflow.client.errors import ConfigurationError, TokenStoreError, WorkflowError
from airflow_provider_workflow.client.settings import USER_GRANT, Settings
from airflow_provider_workflow.client.tokens import TOKENS, token_key
from airflow_provider_workflow.client.user_tokens import user_tokens_of
from airflow_provider_workflow.client.wire import one_line
from airflow_provider_workflow.hooks.user_tokens import VariableStore

PREFILLED = (
    "referer",
    "sign_up_email",
    "sign_up_first_name",
    "sign_up_last_name",
    "utm_campaign",
    "utm_content",
    "utm_medium",
    "utm_source",
)
"""Optional parameters of the authorization page (docs/service.md 10)."""


class AuthorizationDeniedError(WorkflowError):
    """
    The redirect has an error instead of a code (RFC 6749, section 4.1.2.1).

    :param code: error code, such as ``access_denied``.
    :param explanation: the service's description of it, or "".
    """

    def __init__(self, code: str, explanation: str) -> None:
        super().__init__(
            f"The authorization page answered {one_line(code)!r}"
            + (f": {one_line(explanation)}" if explanation else " and gave no reason")
        )
        self.code = code


def check_state(state: str, expected: str) -> None:
    """
    Check the ``state`` of a redirect, before its code is used (docs/service.md 14.3).

    :raises ValueError: it differs from the expected one, or that is empty.
    """
    if not (expected and hmac.compare_digest(state.encode(), expected.encode())):
        raise ValueError("state is not the one that was sent: the redirect does not belong to this login")


def check_grant(settings: Settings) -> None:
    """
    Check that the connection uses tokens of a user.

    :raises ConfigurationError: it uses tokens of the application.
    """
    if settings.grant != USER_GRANT:
        raise ConfigurationError([f"grant must be {USER_GRANT} to use a user's tokens"])


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


def check_store() -> None:
    """
    Check that this process can store user tokens; only for processes other than tasks and triggerers.

    It does not read a Variable: without a database connection Airflow reports the Variable as missing.

    :raises TokenStoreError: Airflow's database is unreachable, or not migrated.
    """
    try:
        airflow_internals.check_database()
    except Exception as error:  # any exception of the database driver; its message contains the URL
        raise TokenStoreError(
            f"Airflow's database cannot be used from here ({type(error).__name__}): run this where Airflow"
            " runs, with its configuration, and after 'airflow db migrate'"
        ) from None


def query_of(address: str, redirect_uri: str) -> str:
    """
    The query of a URL that a user copied from the browser.

    :raises ValueError: the URL is not the connection's redirect URI.
    """
    expected, pasted = urlsplit(redirect_uri), urlsplit(address.strip())
    if _place(pasted) != _place(expected):
        raise ValueError(
            f"this is not the URL to which the authorization page redirects: that begins with {redirect_uri}"
        )
    return pasted.query


def _place(parts: SplitResult) -> tuple[str, str, str]:
    return parts.scheme.lower(), parts.netloc.lower(), parts.path or "/"


def code_of(query: str, expected_state: str) -> str:
    """
    The code in the query of a redirect, after a check of its ``state`` (docs/service.md 14.3).

    :raises ValueError: the redirect is invalid or belongs to another request; the user can enter another URL.
    :raises AuthorizationDeniedError: the user or the service denied the authorization.
    """
    fields = parse_qs(query, keep_blank_values=True, max_num_fields=50)
    if any(len(fields.get(name, [])) > 1 for name in ("state", "code", "error")):
        raise ValueError("the URL has state, code or error more than once")
    check_state(fields.get("state", [""])[0], expected_state)
    if "error" in fields:
        raise AuthorizationDeniedError(fields["error"][0], fields.get("error_description", [""])[0])
    code = fields.get("code", [""])[0]
    if not code:
        raise ValueError("the URL has no code")
    return code


def keep(settings: Settings, token: types.Token, asked_at: float, mask: Callable[[str], None]) -> None:
    """
    Store a user's tokens, replacing earlier ones.

    :param asked_at: time of the request, in seconds since 1970.
    :param mask: called with every token, so that logs can mask it.
    :raises ConfigurationError: the connection uses tokens of the application.
    :raises TokenStoreError: the tokens could not be stored.
    """
    check_grant(settings)
    VariableStore(settings, mask).write(user_tokens_of(token, asked_at))
    TOKENS.forget(token_key(settings, settings.scope))
