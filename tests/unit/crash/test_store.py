"""The payload store of a crash test, which this process takes away."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_workflow.dispatch.payload_store import PayloadStore, PayloadStoreError
from tests.crash.__main__ import Plan
from tests.crash.store import DiskStore, S3Store, Store, store_of

CONTENT = b"{}"


@pytest.fixture(params=["disk", pytest.param("s3", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    store = store_of(request.param, tmp_path)
    assert isinstance(store, (DiskStore, S3Store))
    for name, value in store.settings.items():
        monkeypatch.setenv(name, value)
    return store


def test_a_store_that_is_away_fails_and_has_its_objects_when_it_is_back(store):
    def payloads() -> PayloadStore:
        configured = PayloadStore.configured()
        assert configured
        return configured

    payloads().write("a.json", CONTENT)
    store.take_away()
    with pytest.raises(PayloadStoreError):
        payloads().write("b.json", CONTENT)
    store.bring_back()
    payloads().write("b.json", CONTENT)
    assert [(payloads().root / name).read_bytes() for name in ("a.json", "b.json")] == [CONTENT] * 2


def test_a_kind_of_store_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="STORE=tape"):
        store_of("tape", tmp_path)


def test_the_texts_of_payloads_have_lengths_between_the_limits_most_of_them_short(monkeypatch):
    monkeypatch.setenv("DOCUMENTS", "1000-30000000")
    plan = Plan.of_environment()
    lengths = [plan.text_bytes(number) for number in range(200)]
    assert min(lengths) >= 1000
    assert max(lengths) <= 30_000_000
    assert sum(length < 1_000_000 for length in lengths) > 100
    assert lengths == [plan.text_bytes(number) for number in range(200)]
    assert "DOCUMENTS=1000-30000000" in plan.command
