"""
A user logs in: what the authorization page sent back is checked, then kept (docs/service.md 10 and 14.3).

Nothing here needs a terminal; the command ``login`` brings the user here.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from urllib.parse import SplitResult, parse_qs, urlsplit

from airflow_provider_workflow import airflow_internals
from airflow_provider_workflow.client import types
from airflow_provider_workflow.client.errors import ConfigurationError, TokenStoreError, WorkflowError
from airflow_provider_workflow.client.failures import one_line
from airflow_provider_workflow.client.settings import USER_GRANT, Settings
from airflow_provider_workflow.client.tokens import TOKENS, token_key, user_tokens_of
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
    The authorization page sent an error instead of a code (RFC 6749, section 4.1.2.1).

    :param code: such as ``access_denied``.
    :param explanation: what the service says about it, or "".
    """

    def __init__(self, code: str, explanation: str) -> None:
        super().__init__(
            f"The authorization page answered {one_line(code)!r}"
            + (f": {one_line(explanation)}" if explanation else " and gave no reason")
        )
        self.code = code


def check_state(state: str, expected: str) -> None:
    """
    Make sure that a redirect answers our own request, before its code is used (docs/service.md 14.3).

    :raises ValueError: it does not, or nothing was expected.
    """
    if not (expected and hmac.compare_digest(state.encode(), expected.encode())):
        raise ValueError("state is not the one that was sent: this is no answer to our own request")


def check_grant(settings: Settings) -> None:
    """
    Make sure that a user's tokens would be used.

    :raises ConfigurationError: the connection uses those of the application.
    """
    if settings.grant != USER_GRANT:
        raise ConfigurationError([f"grant must be {USER_GRANT} for a user's tokens to be used"])


def check_ready(settings: Settings, scope: str) -> None:
    """
    Make sure that a user can log in for this connection, before he is sent to the authorization page.

    :param scope: space-separated scopes that he is to be asked for.
    :raises ConfigurationError: names every field that is missing or wrong.
    """
    problems = []
    if settings.grant != USER_GRANT:
        problems.append(f"grant is {settings.grant} (set it to {USER_GRANT} for a user's tokens to be used)")
    if not settings.auth_url:
        problems.append("auth_url is missing (set the base of the authorization page in Extra)")
    if not settings.redirect_uri:
        problems.append("redirect_uri is missing (set one of those configured for your application in Extra)")
    if missing := set(settings.scope.split()) - set(scope.split()):
        problems.append(
            f"scope needs {' '.join(sorted(missing))}, which the user would not be asked for"
            " (ask for it too, or change the connection's scope)"
        )
    if problems:
        raise ConfigurationError(problems)


def check_store() -> None:
    """
    Make sure that user tokens can be kept from here; only outside of tasks and triggerers.

    To read a Variable would not do: Airflow takes a database that is away for a Variable that is missing.

    :raises TokenStoreError: Airflow's database is unreachable, or not set up.
    """
    try:
        airflow_internals.check_database()
    except Exception as error:  # whatever the driver of the database raises; its text holds the address
        raise TokenStoreError(
            f"Airflow's database cannot be used from here ({type(error).__name__}): run this where Airflow"
            " runs, with its configuration, and after 'airflow db migrate'"
        ) from None


def query_of(address: str, redirect_uri: str) -> str:
    """
    The query of an address that a user copied from the browser.

    :raises ValueError: it is not the connection's redirect URI.
    """
    expected, given = urlsplit(redirect_uri), urlsplit(address.strip())
    if _place(given) != _place(expected):
        raise ValueError(
            f"this is not the address that the authorization page returns to: it begins with {redirect_uri}"
        )
    return given.query


def _place(parts: SplitResult) -> tuple[str, str, str]:
    return parts.scheme.lower(), parts.netloc.lower(), parts.path or "/"


def code_of(query: str, expected_state: str) -> str:
    """
    The code in the query of a redirect, its ``state`` checked first (docs/service.md 14.3).

    :raises ValueError: it is no answer to our own request; the user may still send the right one.
    :raises AuthorizationDeniedError: the user, or the service, refused.
    """
    fields = parse_qs(query, keep_blank_values=True, max_num_fields=50)
    if any(len(fields.get(name, [])) > 1 for name in ("state", "code", "error")):
        raise ValueError("the address holds state, code or error more than once")
    check_state(fields.get("state", [""])[0], expected_state)
    if "error" in fields:
        raise AuthorizationDeniedError(fields["error"][0], fields.get("error_description", [""])[0])
    code = fields.get("code", [""])[0]
    if not code:
        raise ValueError("the address holds no code")
    return code


def keep(settings: Settings, token: types.Token, asked_at: float, mask: Callable[[str], None]) -> None:
    """
    Store a user's tokens in the place of those before.

    :param asked_at: when they were asked for, in seconds since 1970.
    :param mask: told every token, so that logs can mask it.
    """
    check_grant(settings)
    VariableStore(settings, mask).write(user_tokens_of(token, asked_at))
    TOKENS.forget(token_key(settings, settings.scope))
