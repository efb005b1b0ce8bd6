"""The token exchange driven by hand: its steps, and answers to them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from airflow_provider_workflow.client.errors import RateLimitError, ServerError, TransportError
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.tokens import AccessToken, TokenCache, access_token, token_key
from tests.unit.fake_clock import FakeClock

SETTINGS = Settings("https://api.example.com", "an-id", "a-secret", "https://api.example.com/token")
HOURS_10 = 36000
DOWN = [
    TransportError("down", sent=False),
    ServerError("down", status=503),
    RateLimitError("busy", status=429),
]


@pytest.fixture
def cache(fake_clock: FakeClock) -> TokenCache:
    return TokenCache()


Exchange = Generator[Any, Any, AccessToken]


def asks(cache: TokenCache, settings: Settings = SETTINGS, scope: str = "external") -> Exchange:
    return access_token(cache, token_key(settings, scope), None)


def issue(exchange: Exchange, value: str, **more: Any) -> str:
    """Answer the token call that an exchange waits for; the token that it ends with."""
    with pytest.raises(StopIteration) as end:
        exchange.send({"access_token": value, "expires_in": HOURS_10, **more})
    return str(end.value.value.value)


def at_once(exchange: Exchange) -> str:
    """The token of an exchange that needs no step."""
    with pytest.raises(StopIteration) as end:
        next(exchange)
    return str(end.value.value.value)
