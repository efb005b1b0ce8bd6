"""Who asks for a token, who waits for whom, and who goes on with what."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.client.call import Call
from airflow_provider_workflow.client.errors import (
    AuthenticationError,
)
from airflow_provider_workflow.client.tokens import TokenCache
from tests.unit.client.exchanges import asks, at_once, cache, issue

__all__ = ["cache"]


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
    assert end.value.value.value == "one"


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
