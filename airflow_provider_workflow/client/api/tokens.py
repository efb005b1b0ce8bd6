"""Tokens, and where a user grants them (docs/service.md 9.1, 10 and 14)."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from airflow_provider_workflow.client import types, wire
from airflow_provider_workflow.client.arguments import filled
from airflow_provider_workflow.client.call import Call, Family, Identity
from airflow_provider_workflow.client.settings import Settings


def _token(name: str, form: Mapping[str, str], *, repeatable: bool) -> Call[types.Token]:
    return Call(
        name,
        "POST",
        Family.TOKEN,
        "",
        wire.thing,
        Identity.BASIC,
        form=form,
        repeatable=repeatable,
        urgent=True,
    )


def app_token(scope: str) -> Call[types.Token]:
    """An access token for the application itself: the client-credentials grant (docs/service.md 9.1)."""
    form = {"grant_type": "client_credentials", "scope": filled("scope", scope)}
    return _token("app_token", form, repeatable=True)


def exchange_code(code: str, redirect_uri: str) -> Call[types.Token]:
    """
    A user's tokens for an authorization code (docs/service.md 9.1 and 14.3).

    :param code: valid for 2 minutes, once.
    :param redirect_uri: the one that the authorization page was opened with.
    """
    form = {
        "grant_type": "authorization_code",
        "code": filled("code", code),
        "redirect_uri": filled("redirect_uri", redirect_uri),
    }
    return _token("exchange_code", form, repeatable=False)


def refresh_user_token(refresh_token: str) -> Call[types.Token]:
    """
    A user's next tokens (docs/service.md 9.1 and 14.3).

    :param refresh_token: used up by the call; the answer holds the next one.
    """
    form = {"grant_type": "refresh_token", "refresh_token": filled("refresh_token", refresh_token)}
    return _token("refresh_user_token", form, repeatable=False)


def authorization_url(
    settings: Settings, *, scope: str, state: str, redirect_uri: str | None = None, **prefilled: str
) -> str:
    """
    The address of the authorization page, for a browser (docs/service.md 10).

    :param scope: space-separated scopes that the user is asked for.
    :param state: random text that the redirect must bring back.
    :param redirect_uri: where the browser goes afterwards; the connection's by default.
    :param prefilled: optional parameters such as ``sign_up_email`` or ``utm_source``.
    :raises ValueError: the connection has no ``auth_url``, or there is no ``redirect_uri``.
    """
    target = redirect_uri or settings.redirect_uri
    for field, value in (("auth_url", settings.auth_url), ("redirect_uri", target)):
        if not value:
            raise ValueError(f"{field} is missing: set it in the connection's Extra")
    query = {
        "response_type": "code",
        "client_id": settings.client_id,
        "redirect_uri": target,
        "scope": filled("scope", scope),
        "response_mode": "query",
        "state": filled("state", state),
        **prefilled,
    }
    return f"{settings.auth_url}/v2/authorize?{urlencode(query)}"
