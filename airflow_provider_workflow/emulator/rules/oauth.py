"""Access tokens, the authorization page and the three grants (docs/service.md 9, 10 and 14)."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, get_args
from urllib.parse import unquote_plus, urlencode

from airflow_provider_workflow.emulator.rules.core import Core, Table, atomic
from airflow_provider_workflow.emulator.rules.errors import ServiceError
from airflow_provider_workflow.emulator.rules.records import Token
from airflow_provider_workflow.emulator.settings import Scope

APP_GRANT = "client_credentials"
CODE_SECONDS = 120
"""Lifetime of an authorization code (docs/service.md 10)."""
MARK = "emulated-"
"""Prefix of all tokens and codes, by which tests find leaked ones."""


Admission = tuple[str, int]
"""The scope that a group of calls requires, and the status for a token that is unknown or has expired."""

INBOX = ("external", 400)
"""The trigger inbox (docs/service.md 14.4)."""

EVENTS = ("external", 401)
"""The event stream (docs/service.md 11.4)."""

PROMOTIONS = ("promotions:write", 401)
"""Unenrolling a user, which needs an app token (docs/service.md 8)."""


class OAuth:
    """
    The access tokens that the service has issued, authorization codes and refresh tokens.

    A code and a refresh token can be used once.
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        self._tokens = Table(core, "token", Token)
        self._codes = Table(core, "code", Token)
        self._refresh_tokens = Table(core, "refresh_token", Token)

    @property
    def issued(self) -> dict[str, Token]:
        """All access tokens that were issued, by their value."""
        return {token.value: token for token in list(self._tokens.values())}

    @property
    def refresh_tokens(self) -> list[str]:
        """Those that may be used."""
        return [token.value for token in list(self._refresh_tokens.values())]

    @atomic
    def issue(self, scope: str = "external", grant: str = APP_GRANT) -> Token:
        """
        Issue an access token.

        :param scope: space-separated scopes.
        :param grant: the grant of the request.
        """
        return self._new(self._tokens, "access-token", scope, grant, self.core.settings.token_seconds)

    @atomic
    def admit(self, authorization: str | None, admission: Admission) -> Token:
        """
        Check the ``Authorization`` header of a call.

        :raises ServiceError: as ``admission`` says, and 401 without the prefix ``Bearer``.
        """
        if authorization is None or not authorization.startswith("Bearer "):
            raise ServiceError(
                401,
                "missing_bearer_token",
                "The Authorization header must be 'Bearer <ACCESS_TOKEN>'.",
                source={"header": "Authorization"},
            )
        scope, stale_status = admission
        token = self._tokens.get(authorization[7:].strip())
        if token is None or not self.alive(token):
            raise ServiceError(stale_status, "unauthenticated", "The token expired or is not valid.")
        for_app = admission == PROMOTIONS
        if scope not in token.scope.split() or (for_app and token.grant != APP_GRANT):
            detail = f"The token must be issued by the token endpoint with scope {scope}."
            raise ServiceError(*((403, "forbidden") if for_app else (401, "invalid_audience")), detail)
        return token

    @atomic
    def alive(self, token: Token) -> bool:
        """Whether an access token is valid."""
        return token.value in self._tokens and self.core.clock.now() < token.expires_at

    @atomic
    def expire(self, value: str | None = None) -> int:
        """
        Expire access tokens now (control).

        :param value: the token; None for all.
        :return: the number of tokens that expired.
        """
        ended = [token for token in filter(self.alive, self._tokens.values()) if value in (None, token.value)]
        for token in ended:
            token.expires_at = self.core.clock.now()
            self._tokens.save(token.value, token)
        self.core.announce(None)
        return len(ended)

    def page_fault(self, query: Mapping[str, str]) -> str | None:
        """
        Check the parameters of the authorization page.

        :return: the error code of RFC 6749 4.1.2.1 for the redirect, or None.
        :raises ServiceError: 400 for another client or redirect URI; without a redirect, so that no other
            site receives a code.
        """
        settings = self.core.settings
        if query.get("client_id") != settings.client_id:
            raise ServiceError(400, "invalid_client", "client_id: unknown application.")
        if query.get("redirect_uri") not in settings.redirect_uris:
            detail = f"redirect_uri: must be one of those configured: {', '.join(settings.redirect_uris)}."
            raise ServiceError(400, "invalid_redirect_uri", detail)
        if query.get("response_type") != "code":
            return "unsupported_response_type"
        if query.get("response_mode") != "query" or not query.get("state"):
            return "invalid_request"
        return None if _are_scopes(query.get("scope", "")) else "invalid_scope"

    @atomic
    def approve(self, query: Mapping[str, str]) -> str:
        """
        Approve as the user.

        :param query: the checked parameters of the authorization page.
        :return: the redirect URI with ``code`` and ``state``.
        """
        uri = query["redirect_uri"]
        code = self._new(self._codes, "code", query["scope"], "", CODE_SECONDS, redirect_uri=uri)
        return redirect_to(query, code=code.value)

    @atomic
    def grant(self, form: Mapping[str, str], credentials: tuple[str, str] | None) -> dict[str, Any]:
        """
        Answer the token endpoint.

        :param form: fields of the body.
        :param credentials: client ID and secret of HTTP Basic, or None if they are in the body.
        :return: a token response (docs/service.md 9.2).
        :raises ServiceError: 400 or 401 with a body of RFC 6749.
        """
        self._check_client(form, credentials)
        grant_type = _required(form, "grant_type")
        if grant_type == APP_GRANT:
            scope = form.get("scope", "")
            if not _are_scopes(scope):
                raise _oauth_error("invalid_scope", "scope is missing or not known.")
        elif grant_type == "authorization_code":
            code = self._codes.forget(_required(form, "code"))
            if code is None or self.core.clock.now() >= code.expires_at:
                raise _oauth_error("invalid_grant", "The code is unknown, was used, or has expired.")
            if form.get("redirect_uri") != code.redirect_uri:
                raise _oauth_error("invalid_grant", "redirect_uri is not the one that the code was sent to.")
            scope = code.scope
        elif grant_type == "refresh_token":
            used = self._refresh_tokens.forget(_required(form, "refresh_token"))
            if used is None:
                raise _oauth_error("invalid_grant", "The refresh token is unknown or was used.")
            scope = used.scope
        else:
            raise _oauth_error("unsupported_grant_type", f"grant_type {grant_type!r} is not known.")
        token = self.issue(scope, grant_type)
        response = {
            "access_token": token.value,
            "expires_in": round(token.expires_at - self.core.clock.now()),
            "token_type": "Bearer",
            "scope": scope,
        }
        if grant_type == APP_GRANT:
            return response
        refresh_token = self._new(self._refresh_tokens, "refresh-token", scope, grant_type, 0)
        return {**response, "refresh_token": refresh_token.value}

    def _check_client(self, form: Mapping[str, str], credentials: tuple[str, str] | None) -> None:
        pair = credentials or (form.get("client_id", ""), form.get("client_secret", ""))
        settings = self.core.settings
        # RFC 6749 2.3.1 requires form encoding inside HTTP Basic; most clients do not encode.
        decoded = (unquote_plus(pair[0]), unquote_plus(pair[1]))
        if (settings.client_id, settings.client_secret) not in (pair, decoded):
            challenge = {"WWW-Authenticate": 'Basic realm="token"'} if credentials else None
            raise _oauth_error("invalid_client", "Unknown client or wrong secret.", 401, challenge)

    def _new(
        self, table: Table[Token], kind: str, scope: str, grant: str, seconds: float, redirect_uri: str = ""
    ) -> Token:
        value = f"{MARK}{kind}-{secrets.token_urlsafe(24)}"
        return table.save(value, Token(value, scope, grant, self.core.clock.now() + seconds, redirect_uri))


def _oauth_error(
    error: str, description: str, status: int = 400, headers: dict[str, str] | None = None
) -> ServiceError:
    """An error of the token endpoint, in the format of RFC 6749 5.2."""
    body = {"error": error, "error_description": description}
    return ServiceError(status, error, description, headers=headers, body=body)


def redirect_to(query: Mapping[str, str], **answer: str) -> str:
    """The URL that the browser is redirected to, with the ``state`` of the request."""
    if "state" in query:
        answer["state"] = query["state"]
    uri = query["redirect_uri"]
    return f"{uri}{'&' if '?' in uri else '?'}{urlencode(answer)}"


def _are_scopes(text: str) -> bool:
    return bool(text.split()) and set(text.split()) <= set(get_args(Scope))


def _required(form: Mapping[str, str], field: str) -> str:
    value = form.get(field)
    if not value:
        raise _oauth_error("invalid_request", f"{field} is missing.")
    return value
