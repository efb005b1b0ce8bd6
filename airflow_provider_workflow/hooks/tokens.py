"""The hook's methods for tokens: the application's own, and those of users (docs/service.md 9, 10 and 14)."""

from __future__ import annotations

from airflow_provider_workflow import clock
from airflow_provider_workflow.client import api, types
from airflow_provider_workflow.hooks import login, user_tokens
from airflow_provider_workflow.hooks.connected import ConnectedHook
from airflow_provider_workflow.hooks.masking import mask


class TokenHook(ConnectedHook):
    """
    Asks for tokens, each of which is masked in logs.

    :param workflow_conn_id: id of the Airflow connection.
    """

    def authorization_url(
        self, *, scope: str, state: str, redirect_uri: str | None = None, **prefilled: str
    ) -> str:
        """
        Address of the authorization page, to be opened in a browser.

        :param scope: space-separated scopes that the user is asked for.
        :param state: random text; compare it with the one that the redirect brings back.
        :param redirect_uri: where the browser goes afterwards; the connection's by default.
        :param prefilled: optional parameters such as ``sign_up_email`` or ``utm_source``.
        :raises ValueError: the connection has no ``auth_url``, or there is no ``redirect_uri``.
        """
        return api.authorization_url(
            self.settings, scope=scope, state=state, redirect_uri=redirect_uri, **prefilled
        )

    def exchange_code(self, code: str, redirect_uri: str | None = None) -> types.Token:
        """
        A user's tokens for an authorization code; sent once, never repeated.

        :param code: valid for 2 minutes.
        :param redirect_uri: the one that the page was opened with; the connection's by default.
        """
        return self._masked(
            self.client.send(api.exchange_code(code, redirect_uri or self.settings.redirect_uri))
        )

    def refresh_user_token(self, refresh_token: str) -> types.Token:
        """
        A user's next tokens; sent once, never repeated.

        :param refresh_token: used up by the call. Store the answer's own before anything else.
        """
        return self._masked(self.client.send(api.refresh_user_token(refresh_token)))

    def log_in(self, *, code: str, state: str, expected_state: str, redirect_uri: str | None = None) -> None:
        """
        Exchange what the authorization page sent back, and store the user's tokens (docs/service.md 14.3).

        :param code: valid for 2 minutes, once.
        :param state: as the redirect brought it back.
        :param expected_state: as ``authorization_url`` was given it.
        :param redirect_uri: the one that the page was opened with; the connection's by default.
        :raises ValueError: the redirect answers another request than ours; nothing was sent.
        :raises ConfigurationError: the connection's grant is not ``refresh_token``.
        """
        login.check_grant(self.settings)
        login.check_state(state, expected_state)
        asked_at = clock.now()
        self.store_user_tokens(self.exchange_code(code, redirect_uri), asked_at)

    def store_user_tokens(self, token: types.Token, asked_at: float | None = None) -> None:
        """
        Store a user's tokens for all tasks and triggers of this connection, in the place of those before.

        Processes that hold an access token from before use it until it is due.

        :param token: an answer of the token endpoint that holds a refresh token.
        :param asked_at: when it was asked for, in seconds since 1970; now by default.
        :raises ConfigurationError: the connection's grant is not ``refresh_token``.
        :raises TokenStoreError: Airflow does not take them.
        """
        login.keep(self.settings, token, clock.now() if asked_at is None else asked_at, mask)

    def app_token(self, scope: str | None = None) -> types.Token:
        """
        A new access token for the application itself; the token cache is left alone.

        :param scope: space-separated scopes; the connection's by default.
        """
        return self._masked(self.client.send(api.app_token(scope or self.settings.scope)))

    def access_token(self, scope: str | None = None) -> types.Token:
        """
        What calls of this scope are sent with: a user's token, or a new one of the application.

        A user's is renewed first where it is due. It comes without its refresh token.

        :param scope: space-separated scopes; the connection's by default.
        :raises LoginRequiredError: the user's tokens are of no use any more.
        """
        wanted = scope or self.settings.scope
        of_user = user_tokens.in_use(self.settings, wanted, self.client)
        return self.app_token(wanted) if of_user is None else of_user

    @staticmethod
    def _masked(token: types.Token) -> types.Token:
        for name in ("access_token", "refresh_token"):
            if isinstance(value := token.get(name), str):
                mask(value)
        return token
