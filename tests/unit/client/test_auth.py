"""The token exchange, driven by hand: who asks for a token, who waits, and who goes on with what."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Generator
from typing import Any

import pytest

from airflow_provider_workflow.client.auth import TOKENS, TokenCache, access_token, token_key
from airflow_provider_workflow.client.call import Call
from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    RateLimitError,
    ServerError,
    TransportError,
)
from airflow_provider_workflow.client.settings import Settings
from tests.unit.client.senders import Hands

SETTINGS = Settings("https://api.example.com", "an-id", "a-secret", "https://api.example.com/token")
HOURS_10 = 36000
DOWN = [
    TransportError("down", sent=False),
    ServerError("down", status=503),
    RateLimitError("busy", status=429),
]


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def cache(hands: Hands) -> TokenCache:
    return TokenCache(hands)


Exchange = Generator[Any, Any, str]


def asks(cache: TokenCache, settings: Settings = SETTINGS, scope: str = "external") -> Exchange:
    return access_token(cache, settings, scope)


def issue(exchange: Exchange, value: str, **more: Any) -> str:
    """Answer the token call that an exchange waits for; the token that it ends with."""
    with pytest.raises(StopIteration) as end:
        exchange.send({"access_token": value, "expires_in": HOURS_10, **more})
    return str(end.value.value)


def at_once(exchange: Exchange) -> str:
    """The token of an exchange that needs no step."""
    with pytest.raises(StopIteration) as end:
        next(exchange)
    return str(end.value.value)


def test_the_first_asks_and_the_next_uses_what_it_got(cache: TokenCache) -> None:
    first = asks(cache)
    step = next(first)
    assert isinstance(step, Call)
    assert step.form == {"grant_type": "client_credentials", "scope": "external"}
    assert issue(first, "one") == "one"
    assert at_once(asks(cache)) == "one"


def test_whoever_comes_second_waits_and_goes_on_with_the_token_of_the_first(cache: TokenCache) -> None:
    first, second = asks(cache), asks(cache)
    next(first)
    renewal = next(second)
    assert not renewal.done()
    issue(first, "one")
    assert renewal.result(0) is None
    with pytest.raises(StopIteration) as end:
        second.send(None)
    assert end.value.value == "one"


def test_who_waits_takes_over_from_an_owner_that_was_cancelled(cache: TokenCache) -> None:
    first, second, third = asks(cache), asks(cache), asks(cache)
    next(first)
    renewal = next(second)
    next(third)
    first.close()
    assert renewal.result(0) is None
    assert isinstance(second.send(None), Call)
    assert not isinstance(third.send(None), Call)
    assert issue(second, "two") == "two"


def test_a_waiter_that_is_cancelled_takes_the_renewal_from_nobody(cache: TokenCache) -> None:
    first, second = asks(cache), asks(cache)
    next(first)
    renewal = next(second)
    assert not renewal.cancel()
    second.close()
    assert issue(first, "one") == "one"


def test_a_failure_is_shared_by_all_who_wait_for_it(cache: TokenCache) -> None:
    first, second = asks(cache), asks(cache)
    next(first)
    renewal = next(second)
    refused = AuthenticationError("wrong secret", status=401)
    with pytest.raises(AuthenticationError):
        first.throw(refused)
    assert renewal.exception(0) is refused
    with pytest.raises(AuthenticationError):
        second.throw(renewal.exception(0))
    assert isinstance(next(asks(cache)), Call)


def test_a_programming_error_strands_nobody(cache: TokenCache) -> None:
    first, second = asks(cache), asks(cache)
    next(first)
    renewal = next(second)
    with pytest.raises(ZeroDivisionError):
        first.throw(ZeroDivisionError())
    assert renewal.done()
    assert isinstance(second.send(None), Call)


@pytest.mark.parametrize(
    ("seconds", "renewed"), [(0, False), (HOURS_10 - 301, False), (HOURS_10 - 300, True)]
)
def test_a_token_is_renewed_five_minutes_early(
    cache: TokenCache, hands: Hands, seconds: float, renewed: bool
) -> None:
    first = asks(cache)
    next(first)
    issue(first, "one")
    hands.now += seconds
    if renewed:
        assert isinstance(next(asks(cache)), Call)
    else:
        assert at_once(asks(cache)) == "one"


def test_the_life_of_a_token_counts_from_when_it_was_asked_for(cache: TokenCache, hands: Hands) -> None:
    first = asks(cache)
    next(first)
    hands.now += 100
    issue(first, "one")
    hands.now += HOURS_10 - 300 - 100
    assert isinstance(next(asks(cache)), Call)


def test_a_short_lived_token_is_renewed_half_way(cache: TokenCache, hands: Hands) -> None:
    first = asks(cache)
    next(first)
    issue(first, "one", expires_in=60)
    hands.now += 29
    assert at_once(asks(cache)) == "one"
    hands.now += 1
    assert isinstance(next(asks(cache)), Call)


@pytest.mark.parametrize("fault", DOWN)
def test_a_token_that_is_due_is_used_on_while_the_endpoint_is_down(
    cache: TokenCache, hands: Hands, fault: Exception
) -> None:
    first = asks(cache)
    next(first)
    issue(first, "one")
    hands.now += HOURS_10 - 200
    renewing, waiting = asks(cache), asks(cache)
    next(renewing)
    next(waiting)
    with pytest.raises(StopIteration) as end:
        renewing.throw(fault)
    assert end.value.value == "one"
    with pytest.raises(StopIteration) as end:
        waiting.send(None)
    assert end.value.value == "one"


def test_an_endpoint_that_is_down_is_not_asked_by_every_call(cache: TokenCache, hands: Hands) -> None:
    first = asks(cache)
    next(first)
    issue(first, "one")
    hands.now += HOURS_10 - 200
    renewing = asks(cache)
    next(renewing)
    with pytest.raises(StopIteration):
        renewing.throw(DOWN[0])
    hands.now += 29
    assert at_once(asks(cache)) == "one"
    hands.now += 1
    assert isinstance(next(asks(cache)), Call)


@pytest.mark.parametrize("fault", DOWN)
def test_an_expired_token_is_not_used_on(cache: TokenCache, hands: Hands, fault: Exception) -> None:
    first = asks(cache)
    next(first)
    issue(first, "one")
    hands.now += HOURS_10
    renewing = asks(cache)
    next(renewing)
    with pytest.raises(type(fault)):
        renewing.throw(fault)


@pytest.mark.parametrize("given", [None, 0, -5, "soon", True, float("nan"), [], {}])
def test_an_hour_is_assumed_where_the_life_is_not_told(cache: TokenCache, hands: Hands, given: Any) -> None:
    first = asks(cache)
    next(first)
    issue(first, "one", expires_in=given)
    hands.now += 3299
    assert at_once(asks(cache)) == "one"
    hands.now += 1
    assert isinstance(next(asks(cache)), Call)


@pytest.mark.parametrize("given", [10**400, float("inf"), 1e300, "36000", "36000.0"])
def test_an_odd_life_is_no_crash(cache: TokenCache, given: Any) -> None:
    first = asks(cache)
    next(first)
    assert issue(first, "one", expires_in=given) == "one"
    assert at_once(asks(cache)) == "one"


@pytest.mark.parametrize(
    "answer",
    [{}, {"access_token": ""}, {"access_token": 7}, {"access_token": "a\r\nb"}, {"access_token": "é b"}],
)
def test_an_answer_without_a_usable_token_is_refused(cache: TokenCache, answer: Any) -> None:
    first = asks(cache)
    next(first)
    with pytest.raises(AuthenticationError, match="without a usable access_token"):
        first.send(answer)
    assert isinstance(next(asks(cache)), Call)


def test_a_refused_token_is_dropped_unless_it_was_renewed_meanwhile(cache: TokenCache) -> None:
    key = token_key(SETTINGS, "external")
    cache.keep(key, {"access_token": "new"}, 1000.0)
    cache.drop(key, "old")
    assert at_once(asks(cache)) == "new"
    cache.drop(key, "new")
    assert isinstance(next(asks(cache)), Call)


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({}, True),
        ({"timeout": 5.0, "connection_id": "other"}, True),
        ({"client_secret": "another"}, False),
        ({"client_id": "another"}, False),
        ({"token_url": "https://another.example.com/token"}, False),
        ({"grant": "refresh_token"}, False),
    ],
)
def test_which_connections_share_a_token(changes: dict[str, Any], same: bool) -> None:
    other = Settings(**{**vars(SETTINGS), **changes})
    assert (token_key(SETTINGS, "external") == token_key(other, "external")) is same
    assert token_key(SETTINGS, "external") != token_key(other, "promotions:write")


def test_user_tokens_belong_to_their_connection() -> None:
    mine, yours = (
        Settings(**{**vars(SETTINGS), "grant": "refresh_token", "connection_id": name}) for name in ("a", "b")
    )
    assert token_key(mine, "external") != token_key(yours, "external")


def test_the_key_of_a_token_does_not_hold_the_secret() -> None:
    assert not any("a-secret" in part for part in token_key(SETTINGS, "external"))


def test_a_forked_child_does_not_wait_for_a_renewal_of_its_parent() -> None:
    owner = asks(TOKENS)
    next(owner)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if isinstance(next(asks(TOKENS)), Call) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    owner.close()


def test_a_cache_that_nobody_uses_any_more_is_freed() -> None:
    # test_connection makes one of its own each time.
    gone = weakref.ref(TokenCache())
    gc.collect()
    assert gone() is None
