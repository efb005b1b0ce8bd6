"""Rate limits, with a clock moved by hand."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.emulator.errors import ServiceError
from airflow_provider_workflow.emulator.store import Store


def test_without_a_limit_there_are_no_rate_headers(store: Store) -> None:
    assert store.limits.spend("inbox") == {}


def test_a_window_counts_down_refuses_and_begins_anew(store: Store) -> None:
    store.limits.set("guess", 2, window_seconds=60)
    reset = str(round(store.clock.now()) + 60)
    expected = {"X-RateLimit-Limit": "2", "X-RateLimit-Remaining": "1", "X-RateLimit-Reset": reset}
    assert store.limits.spend("guess") == expected
    store.clock.advance(20)
    assert store.limits.spend("guess")["X-RateLimit-Remaining"] == "0"
    with pytest.raises(ServiceError) as refusal:
        store.limits.spend("guess")
    assert refusal.value.status == 429
    assert refusal.value.headers == {**expected, "X-RateLimit-Remaining": "0", "Retry-After": "40"}
    store.clock.advance(40)
    assert store.limits.spend("guess")["X-RateLimit-Remaining"] == "1"


def test_the_reset_header_can_be_a_delta(store: Store) -> None:
    store.configure(reset_header="delta")
    store.limits.set("inbox", 5, window_seconds=60)
    store.limits.spend("inbox")
    store.clock.advance(15)
    assert store.limits.spend("inbox")["X-RateLimit-Reset"] == "45"


def test_families_are_limited_apart(store: Store) -> None:
    store.limits.set("guess", 0)
    with pytest.raises(ServiceError):
        store.limits.spend("guess")
    assert store.limits.spend("inbox") == {}
    store.limits.set("guess", None)
    assert store.limits.spend("guess") == {}


def test_an_unknown_family_is_refused(store: Store) -> None:
    with pytest.raises(ServiceError, match="family"):
        store.limits.set("everything", 1)
