"""Access tokens, the authorization page and the three grants (docs/service.md 9, 10 and 14)."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus, urlencode

from airflow_provider_workflow.emulator.rules.core import Core, Notice, atomic
from airflow_provider_workflow.emulator.rules.errors import ServiceError, oauth_error
from airflow_provider_workflow.emulator.rules.records import AccessToken, Code, RefreshToken
from airflow_provider_workflow.emulator.settings import KNOWN_SCOPES

APP_GRANT = "client_credentials"
GRANTS = (APP_GRANT, "authorization_code", "refresh_token")
MARK = "emulated-"
"""Prefix of all tokens and codes, by which tests find leaked ones."""


def new_secret(kind: str, size: int) -> str:
    """
    Make a token or a code that contains its kind.

    :param kind: such as ``access-token``.
    :param size: number of random bytes.
    """
    return f"{MARK}{kind}-{secrets.token_urlsafe(size)}"


@dataclass(frozen=True)
class Admission:
    """
    The requirements of a group of calls for a token, and its errors.

    :param scope: required scope.
    :param stale_status: status for a token that is unknown or has expired.
    :param denied_status: status for a token of another scope.
    :param denied_code: code for a token of another scope.
    :param app_only: whether an app token is required.
    """

    scope: str
    stale_status: int
    denied_status: int
    denied_code: str
    app_only: bool = False


INBOX = Admission("external", 400, 401, "invalid_audience")
"""The trigger inbox (docs/service.md 14.4)."""

EVENTS = Admission("external", 401, 401, "invalid_audience")
"""The event stream, where an expired token is 401 (docs/service.md 11)."""

PROMOTIONS = Admission("promotions:write", 401, 403, "forbidden", app_only=True)
"""Unenrolling a user (docs/service.md 8)."""


class Tokens:
    """
    The access tokens that the service has issued.
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        self._tokens: dict[str, AccessToken] = {}

    def restore(self) -> None:
        """Load the state from the journal."""
        for _, values in self.core.journal.load("token"):
            token = AccessToken(*values)
            self._tokens[token.value] = token

    def clear(self) -> None:
        """Delete all tokens."""
        self._tokens.clear()

    @property
    def issued(self) -> dict[str, AccessToken]:
        """All that were issued, by their value."""
        return dict(self._tokens)

    @atomic
    def issue(self, scope: str = "external", grant: str = APP_GRANT) -> AccessToken:
        """
        Issue an access token.

        :param scope: space-separated scopes.
        :param grant: the grant of the request.
        """
        expires_at = self.core.clock.now() + self.core.settings.token_seconds
        token = AccessToken(new_secret("access-token", 24), scope, grant, expires_at)
        self._tokens[token.value] = token
        return self._save(token)

    @atomic
    def admit(self, authorization: str | None, admission: Admission) -> AccessToken:
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
        token = self._tokens.get(authorization[7:].strip())
        if token is None or not self.alive(token):
            raise ServiceError(
                admission.stale_status, "unauthenticated", "The token expired or is not valid."
            )
        if admission.scope not in token.scope.split() or (admission.app_only and token.grant != APP_GRANT):
            detail = f"The token must be issued by the token endpoint with scope {admission.scope}."
            raise ServiceError(admission.denied_status, admission.denied_code, detail)
        return token

    @atomic
    def alive(self, token: AccessToken) -> bool:
        """Whether a token is valid."""
        return token.value in self._tokens and self.core.clock.now() < token.expires_at

    @atomic
    def expire(self, value: str | None = None) -> int:
        """
        Expire tokens now (control).

        :param value: the token; None for all.
        :return: the number of tokens that expired.
        """
        ended = [token for token in filter(self.alive, self._tokens.values()) if value in (None, token.value)]
        for token in ended:
            token.expires_at = self.core.clock.now()
            self._save(token)
        self.core.announce(Notice(None))
        return len(ended)

    def _save(self, token: AccessToken) -> AccessToken:
        self.core.journal.save("token", token.value, token)
        return token


class OAuth:
    """
    Authorization codes and refresh tokens; each can be used once.
    """

    def __init__(self, core: Core, tokens: Tokens) -> None:
        self.core = core
        self.tokens = tokens
        self._codes: dict[str, Code] = {}
        self._refresh_tokens: dict[str, RefreshToken] = {}

    def restore(self) -> None:
        """Load the state from the journal."""
        for _, values in self.core.journal.load("code"):
            self._codes[values[0]] = Code(*values)
        for _, values in self.core.journal.load("refresh_token"):
            self._refresh_tokens[values[0]] = RefreshToken(*values)

    def clear(self) -> None:
        """Delete all codes and refresh tokens."""
        self._codes.clear()
        self._refresh_tokens.clear()

    @property
    def refresh_tokens(self) -> list[str]:
        """Those that may be used."""
        return list(self._refresh_tokens)

    def check_page(self, query: Mapping[str, str]) -> None:
        """
        Check client and redirect URI, whose errors must not be sent as a redirect.

        :raises ServiceError: 400; without a redirect, so that no other site receives a code.
        """
        settings = self.core.settings
        if query.get("client_id") != settings.client_id:
            raise ServiceError(400, "invalid_client", "client_id: unknown application.")
        if query.get("redirect_uri") not in settings.redirect_uris:
            detail = f"redirect_uri: must be one of those configured: {', '.join(settings.redirect_uris)}."
            raise ServiceError(400, "invalid_redirect_uri", detail)

    def page_fault(self, query: Mapping[str, str]) -> str | None:
        """The error code of RFC 6749 4.1.2.1 for invalid other parameters, or None."""
        if query.get("response_type") != "code":
            return "unsupported_response_type"
        if query.get("response_mode") != "query" or not query.get("state"):
            return "invalid_request"
        scopes = query.get("scope", "").split()
        return None if scopes and KNOWN_SCOPES.issuperset(scopes) else "invalid_scope"

    @atomic
    def approve(self, query: Mapping[str, str]) -> str:
        """
        Approve as the user.

        :param query: the checked parameters of the authorization page.
        :return: the redirect URI with ``code`` and ``state``.
        """
        expires_at = self.core.clock.now() + self.core.settings.code_seconds
        code = Code(new_secret("code", 16), query["scope"], query["redirect_uri"], expires_at)
        self._codes[code.value] = code
        self.core.journal.save("code", code.value, code)
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
        grants = {
            "authorization_code": self._by_code,
            "refresh_token": self._by_refresh_token,
            APP_GRANT: self._by_client_credentials,
        }
        grant_type = form.get("grant_type")
        if not grant_type:
            raise oauth_error(400, "invalid_request", "grant_type is missing.")
        if grant_type not in grants:
            raise oauth_error(400, "unsupported_grant_type", f"grant_type {grant_type!r} is not known.")
        return grants[grant_type](form)

    def _check_client(self, form: Mapping[str, str], credentials: tuple[str, str] | None) -> None:
        basic = credentials is not None
        pair = credentials or (form.get("client_id", ""), form.get("client_secret", ""))
        settings = self.core.settings
        # RFC 6749 2.3.1 requires form encoding inside HTTP Basic; most clients do not encode.
        decoded = (unquote_plus(pair[0]), unquote_plus(pair[1]))
        if (settings.client_id, settings.client_secret) not in (pair, decoded):
            raise oauth_error(401, "invalid_client", "Unknown client or wrong secret.", basic=basic)

    def _by_code(self, form: Mapping[str, str]) -> dict[str, Any]:
        value = _required(form, "code")
        code = self._codes.pop(value, None)
        self.core.journal.forget("code", value)
        if code is None or self.core.clock.now() >= code.expires_at:
            raise oauth_error(400, "invalid_grant", "The code is unknown, was used, or has expired.")
        if form.get("redirect_uri") != code.redirect_uri:
            raise oauth_error(400, "invalid_grant", "redirect_uri is not the one that the code was sent to.")
        return self._with_refresh_token(self.tokens.issue(code.scope, "authorization_code"))

    def _by_refresh_token(self, form: Mapping[str, str]) -> dict[str, Any]:
        value = _required(form, "refresh_token")
        token = self._refresh_tokens.pop(value, None)
        self.core.journal.forget("refresh_token", value)
        if token is None:
            raise oauth_error(400, "invalid_grant", "The refresh token is unknown or was used.")
        return self._with_refresh_token(self.tokens.issue(token.scope, "refresh_token"))

    def _by_client_credentials(self, form: Mapping[str, str]) -> dict[str, Any]:
        scope = form.get("scope", "").split()
        if not scope or not KNOWN_SCOPES.issuperset(scope):
            raise oauth_error(400, "invalid_scope", "scope is missing or not known.")
        return self._response(self.tokens.issue(" ".join(scope), APP_GRANT))

    def _with_refresh_token(self, token: AccessToken) -> dict[str, Any]:
        refresh = RefreshToken(new_secret("refresh-token", 24), token.scope)
        self._refresh_tokens[refresh.value] = refresh
        self.core.journal.save("refresh_token", refresh.value, refresh)
        return {**self._response(token), "refresh_token": refresh.value}

    def _response(self, token: AccessToken) -> dict[str, Any]:
        seconds = token.expires_at - self.core.clock.now()
        return {
            "access_token": token.value,
            "expires_in": round(seconds),
            "token_type": "Bearer",
            "scope": token.scope,
        }


def redirect_to(query: Mapping[str, str], **answer: str) -> str:
    """The URL that the browser is redirected to, with the ``state`` of the request."""
    if "state" in query:
        answer["state"] = query["state"]
    uri = query["redirect_uri"]
    return f"{uri}{'&' if '?' in uri else '?'}{urlencode(answer)}"


def _required(form: Mapping[str, str], field: str) -> str:
    value = form.get(field)
    if not value:
        raise oauth_error(400, "invalid_request", f"{field} is missing.")
    return value
