"""How long a token is used, which connections share it, and what is no token."""

from __future__ import annotations

import gc
import os
import weakref
from typing import Any

import pytest

from airflow_provider_workflow.client.call import Call
from airflow_provider_workflow.client.errors import AuthenticationError
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.tokens import TOKENS, TokenCache, issued_token, token_key
from tests.unit.client.exchanges import DOWN, HOURS_10, SETTINGS, asks, at_once, cache, issue
from tests.unit.fake_clock import START, FakeClock

__all__ = ["cache"]


@pytest.mark.parametrize(
    ("seconds", "renewed"), [(0, False), (HOURS_10 - 301, False), (HOURS_10 - 300, True)]
)
def test_a_token_is_renewed_five_minutes_early(
    cache: TokenCache, fake_clock: FakeClock, seconds: float, renewed: bool
) -> None:
    first = asks(cache)
    next(first)
    issue(first, "one")
    fake_clock.advance(seconds)
    if renewed:
        assert isinstance(next(asks(cache)), Call)
    else:
        assert at_once(asks(cache)) == "one"


def test_the_life_of_a_token_counts_from_when_it_was_asked_for(
    cache: TokenCache, fake_clock: FakeClock
) -> None:
    first = asks(cache)
    next(first)
    fake_clock.advance(100)
    issue(first, "one")
    fake_clock.advance(HOURS_10 - 300 - 100)
    assert isinstance(next(asks(cache)), Call)


def test_a_short_lived_token_is_renewed_half_way(cache: TokenCache, fake_clock: FakeClock) -> None:
    first = asks(cache)
    next(first)
    issue(first, "one", expires_in=60)
    fake_clock.advance(29)
    assert at_once(asks(cache)) == "one"
    fake_clock.advance(1)
    assert isinstance(next(asks(cache)), Call)


@pytest.mark.parametrize("fault", DOWN)
def test_a_token_that_is_due_is_used_on_while_the_endpoint_is_down(
    cache: TokenCache, fake_clock: FakeClock, fault: Exception
) -> None:
    first = asks(cache)
    next(first)
    issue(first, "one")
    fake_clock.advance(HOURS_10 - 200)
    renewing, waiting = asks(cache), asks(cache)
    next(renewing)
    next(waiting)
    with pytest.raises(StopIteration) as end:
        renewing.throw(fault)
    assert end.value.value.value == "one"
    with pytest.raises(StopIteration) as end:
        waiting.send(None)
    assert end.value.value.value == "one"


def test_a_token_that_is_due_is_not_used_on_where_its_renewal_is_refused(
    cache: TokenCache, fake_clock: FakeClock
) -> None:
    first = asks(cache)
    next(first)
    issue(first, "one")
    fake_clock.advance(HOURS_10 - 200)
    renewing = asks(cache)
    next(renewing)
    with pytest.raises(AuthenticationError):
        renewing.throw(AuthenticationError("no", status=401))


def test_an_endpoint_that_is_down_is_not_asked_by_every_call(
    cache: TokenCache, fake_clock: FakeClock
) -> None:
    first = asks(cache)
    next(first)
    issue(first, "one")
    fake_clock.advance(HOURS_10 - 200)
    renewing = asks(cache)
    next(renewing)
    with pytest.raises(StopIteration):
        renewing.throw(DOWN[0])
    fake_clock.advance(29)
    assert at_once(asks(cache)) == "one"
    fake_clock.advance(1)
    assert isinstance(next(asks(cache)), Call)


@pytest.mark.parametrize("fault", DOWN)
def test_an_expired_token_is_not_used_on(cache: TokenCache, fake_clock: FakeClock, fault: Exception) -> None:
    first = asks(cache)
    next(first)
    issue(first, "one")
    fake_clock.advance(HOURS_10)
    renewing = asks(cache)
    next(renewing)
    with pytest.raises(type(fault)):
        renewing.throw(fault)


@pytest.mark.parametrize("given", [None, 0, -5, "soon", True, float("nan"), [], {}])
def test_an_hour_is_assumed_where_the_life_is_not_told(
    cache: TokenCache, fake_clock: FakeClock, given: Any
) -> None:
    first = asks(cache)
    next(first)
    issue(first, "one", expires_in=given)
    fake_clock.advance(3299)
    assert at_once(asks(cache)) == "one"
    fake_clock.advance(1)
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
    cache.put(key, issued_token({"access_token": "new"}, START))
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
