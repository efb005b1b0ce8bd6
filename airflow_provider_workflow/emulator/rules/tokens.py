"""Issues, checks and expires access tokens (docs/service.md 9.2 and 14)."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from airflow_provider_workflow.emulator.rules.core import Core, Notice, atomic
from airflow_provider_workflow.emulator.rules.errors import ServiceError
from airflow_provider_workflow.emulator.rules.records import AccessToken

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
        ended = [each for each in self._tokens.values() if value in (None, each.value) and self.alive(each)]
        for token in ended:
            token.expires_at = self.core.clock.now()
            self._save(token)
        self.core.announce(Notice(None))
        return len(ended)

    def _save(self, token: AccessToken) -> AccessToken:
        self.core.journal.save("token", token.value, token)
        return token
