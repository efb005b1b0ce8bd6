"""Stores of user tokens for tests, and users who have logged in."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

from airflow_provider_workflow import clock
from airflow_provider_workflow.client.user_tokens import UserTokens
from airflow_provider_workflow.emulator.rules.oauth import OAuth
from airflow_provider_workflow.emulator.server import EmulatorServer


class MemoryStore:
    """
    A store in memory, which notes what is done to it.

    :param tokens: what it holds at first.
    """

    def __init__(self, tokens: UserTokens | None = None) -> None:
        self.tokens = tokens
        self.reads = 0
        self.written: list[UserTokens] = []
        self.on_read: Callable[[], None] = lambda: None

    def read(self) -> UserTokens | None:
        self.reads += 1
        self.on_read()
        return self.tokens

    def write(self, tokens: UserTokens) -> None:
        self.written.append(tokens)
        self.tokens = tokens


def authorize(oauth: OAuth, redirect_uri: str, state: str = "any", scope: str = "external") -> dict[str, str]:
    """What the authorization page sends back once a user approves: ``code`` and ``state``."""
    back = oauth.approve({"scope": scope, "redirect_uri": redirect_uri, "state": state})
    return {name: values[0] for name, values in parse_qs(urlsplit(back).query).items()}


def logged_in(emulator: EmulatorServer, life: float = 36000.0, scope: str = "external") -> UserTokens:
    """
    Tokens of a user who has just logged in.

    :param life: seconds until they end, by the clock of the package; renewed 5 minutes before.
    """
    uri = emulator.store.settings.redirect_uris[0]
    code = authorize(emulator.store.tokens, uri, scope=scope)["code"]
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": uri}
    answer = emulator.store.tokens.grant(form, (emulator.client_id, emulator.client_secret))
    now = clock.now()
    return UserTokens(answer["access_token"], answer["refresh_token"], now + life - 300, now + life)
