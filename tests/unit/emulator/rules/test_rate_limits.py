"""Rate limits, with a clock moved by hand."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.emulator.rules.errors import ServiceError
from airflow_provider_workflow.emulator.rules.store import Store

FAMILIES = ("guess", "templates", "inbox", "token", "promotions")


def remaining(store: Store, family: str) -> str | None:
    return store.spend(family).get("X-RateLimit-Remaining")


def test_by_default_every_family_has_a_limit_that_is_hard_to_reach(store: Store) -> None:
    reset = str(round(store.clock.now()) + 3600)
    expected = {"X-RateLimit-Limit": "10000000", "X-RateLimit-Remaining": "9999999"}
    for family in FAMILIES:
        assert store.spend(family) == {**expected, "X-RateLimit-Reset": reset}
    assert remaining(store, "inbox") == "9999998"


def test_the_default_limit_can_be_changed_and_switched_off(store: Store) -> None:
    store.configure(rate_limit=2)
    assert [remaining(store, "inbox"), remaining(store, "inbox")] == ["1", "0"]
    with pytest.raises(ServiceError):
        store.spend("inbox")
    store.configure(rate_limit=None)
    assert store.spend("inbox") == {}


def test_pages_for_people_have_no_rate_headers(store: Store) -> None:
    assert store.spend("page") == {}


def test_a_window_counts_down_refuses_and_begins_anew(store: Store) -> None:
    store.configure(rate_limit=2, rate_window_seconds=60)
    reset = str(round(store.clock.now()) + 60)
    expected = {"X-RateLimit-Limit": "2", "X-RateLimit-Remaining": "1", "X-RateLimit-Reset": reset}
    assert store.spend("guess") == expected
    store.clock.advance(20)
    assert store.spend("guess")["X-RateLimit-Remaining"] == "0"
    with pytest.raises(ServiceError) as refusal:
        store.spend("guess")
    assert refusal.value.status == 429
    assert refusal.value.headers == {**expected, "X-RateLimit-Remaining": "0", "Retry-After": "40"}
    store.clock.advance(40)
    assert store.spend("guess")["X-RateLimit-Remaining"] == "1"


def test_the_reset_header_can_be_a_delta(store: Store) -> None:
    store.configure(reset_header="delta", rate_limit=5, rate_window_seconds=60)
    store.spend("inbox")
    store.clock.advance(15)
    assert store.spend("inbox")["X-RateLimit-Reset"] == "45"


def test_families_are_limited_apart(store: Store) -> None:
    store.configure(rate_limit=1)
    assert [remaining(store, "guess"), remaining(store, "inbox")] == ["0", "0"]
    with pytest.raises(ServiceError):
        store.spend("guess")
    store.configure(rate_limit=10)
    assert remaining(store, "guess") == "8"
