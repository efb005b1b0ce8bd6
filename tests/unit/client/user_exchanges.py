"""The renewal of user tokens driven by hand: its steps, and answers to them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from airflow_provider_workflow.client.call import CarryThrough, InThread, Pause
from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    LoginRequiredError,
    RateLimitError,
    ServerError,
    TransportError,
)
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.tokens import TokenCache, access_token, token_key
from airflow_provider_workflow.client.user_tokens import UserTokens
from tests.unit.client.exchanges import SETTINGS
from tests.unit.client.stores import MemoryStore
from tests.unit.fake_clock import START as NOW
from tests.unit.fake_clock import FakeClock

USER = Settings(**{**vars(SETTINGS), "grant": "refresh_token", "connection_id": "mine"})
KEY = token_key(USER, "external")
FRESH = UserTokens("access-1", "refresh-1", NOW + 900, NOW + 1200)
DUE = UserTokens("access-1", "refresh-1", NOW - 1, NOW + 299)
OVER = UserTokens("access-1", "refresh-1", NOW - 400, NOW - 100)
THEIRS = UserTokens("access-2", "refresh-2", NOW + 900, NOW + 1200)
ANSWER = {"access_token": "access-2", "refresh_token": "refresh-2", "expires_in": 36000}
OURS = UserTokens("access-2", "refresh-2", NOW + 35700, NOW + 36000)

USED = AuthenticationError("used", status=400, code="invalid_grant")
USED_UNNAMED = AuthenticationError("used", status=400)
CUT = TransportError("cut", sent=True)
NO_USE = [USED, USED_UNNAMED, CUT]
NOT_DONE = [
    TransportError("down", sent=False),
    ServerError("down", status=503),
    RateLimitError("busy", status=429),
]

STORE = MemoryStore()
READ = InThread(STORE.read)

Exchange = Generator[Any, Any, Any]


@pytest.fixture
def cache(fake_clock: FakeClock) -> TokenCache:
    return TokenCache()


def begins(cache: TokenCache) -> Exchange:
    """The exchange that a caller has to carry through."""
    step = next(access_token(cache, KEY, STORE))
    assert isinstance(step, CarryThrough)
    return step.exchange


def asks(cache: TokenCache, stored: UserTokens | None) -> tuple[Exchange, Any]:
    """An exchange that found these tokens in the store, and its next step."""
    exchange = begins(cache)
    assert next(exchange) == READ
    return exchange, exchange.send(stored)


def ends(exchange: Exchange, answer: Any) -> str:
    with pytest.raises(StopIteration) as end:
        exchange.send(answer)
    return str(end.value.value.value)


def waits_in_vain(exchange: Exchange, step: Any) -> tuple[LoginRequiredError, float]:
    """The error that an exchange ends with when nobody stores anything new, and how long it waited."""
    waited = 0.0
    while True:
        assert isinstance(step, Pause)
        waited += step.seconds
        assert exchange.send(None) == READ
        try:
            step = exchange.send(DUE)
        except LoginRequiredError as error:
            return error, waited
