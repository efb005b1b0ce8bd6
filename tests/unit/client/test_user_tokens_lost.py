"""The renewal of user tokens where a refresh token is used up, or the new tokens cannot be stored."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_workflow.client.call import Call, InThread, Pause
from airflow_provider_workflow.client.errors import LoginRequiredError, TokenStoreError, WorkflowError
from airflow_provider_workflow.client.tokens import TokenCache
from tests.unit.client.user_exchanges import (
    ANSWER,
    DUE,
    KEY,
    NO_USE,
    OVER,
    READ,
    THEIRS,
    asks,
    cache,
    ends,
    waits_in_vain,
)

__all__ = ["cache"]


@pytest.mark.parametrize("fault", NO_USE)
def test_the_loser_reads_again_and_goes_on_with_the_winner_s_tokens(
    cache: TokenCache, fault: WorkflowError
) -> None:
    exchange, _ = asks(cache, OVER)
    assert isinstance(exchange.throw(fault), Pause)
    for found in (OVER, None):
        assert exchange.send(None) == READ
        assert isinstance(exchange.send(found), Pause)
    assert exchange.send(None) == READ
    assert isinstance(exchange.throw(TokenStoreError("away")), Pause)
    exchange.send(None)
    assert ends(exchange, THEIRS) == "access-2"
    kept = cache.usable(KEY)
    assert kept is not None
    assert not kept.issued


@pytest.mark.parametrize("fault", NO_USE)
def test_where_nobody_stores_newer_ones_the_user_has_to_log_in_again(
    cache: TokenCache, fault: WorkflowError
) -> None:
    exchange, _ = asks(cache, DUE)
    error, waited = waits_in_vain(exchange, exchange.throw(fault))
    assert waited == 10
    assert "'mine'" in str(error)
    assert "Log in again" in str(error)
    assert error.__cause__ is fault


@pytest.mark.parametrize("fault", NO_USE)
def test_a_refresh_token_of_no_use_is_not_sent_again(cache: TokenCache, fault: WorkflowError) -> None:
    exchange, _ = asks(cache, DUE)
    first, _ = waits_in_vain(exchange, exchange.throw(fault))
    with pytest.raises(LoginRequiredError) as again:
        asks(cache, DUE)
    assert str(again.value) == str(first)
    # Until the user has logged in.
    _, step = asks(cache, replace(DUE, access_token="new", refresh_token="new"))
    assert isinstance(step, Call)


@pytest.mark.parametrize("answer", [{}, {"access_token": 7, "refresh_token": "refresh-2"}])
def test_an_answer_of_no_use_is_a_lost_answer(cache: TokenCache, answer: Any) -> None:
    exchange, _ = asks(cache, DUE)
    error, _ = waits_in_vain(exchange, exchange.send(answer))
    assert "lost" in str(error)


def test_a_login_during_the_renewal_is_not_overwritten(cache: TokenCache) -> None:
    exchange, _ = asks(cache, OVER)
    exchange.send(ANSWER)
    login = replace(THEIRS, access_token="access-of-another", refresh_token="another")
    assert ends(exchange, login) == "access-of-another"


def test_a_write_that_fails_is_tried_again(cache: TokenCache) -> None:
    exchange, _ = asks(cache, OVER)
    exchange.send(ANSWER)
    exchange.send(OVER)
    assert isinstance(exchange.throw(TokenStoreError("away")), Pause)
    assert exchange.send(None) == READ
    assert isinstance(exchange.send(OVER), InThread)
    assert ends(exchange, None) == "access-2"


def test_a_write_that_failed_in_appearance_is_not_done_twice(cache: TokenCache) -> None:
    exchange, _ = asks(cache, OVER)
    exchange.send(ANSWER)
    exchange.send(OVER)
    exchange.throw(TokenStoreError("the answer was lost"))
    exchange.send(None)
    # By now others may have renewed what we wrote; theirs would be lost.
    assert ends(exchange, replace(THEIRS, access_token="access-3", refresh_token="refresh-3")) == "access-3"


def test_tokens_that_cannot_be_stored_are_not_used(cache: TokenCache) -> None:
    exchange, _ = asks(cache, OVER)
    step = exchange.send(ANSWER)
    with pytest.raises(LoginRequiredError, match="could not be stored"):  # noqa: PT012 the steps before it
        while True:
            step = exchange.send(None) if isinstance(step, Pause) else exchange.throw(TokenStoreError("away"))
    assert cache.usable(KEY) is None
    with pytest.raises(LoginRequiredError, match="could not be stored"):
        asks(cache, OVER)
