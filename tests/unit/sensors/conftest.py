"""The time of a sensor that pokes."""

from __future__ import annotations

import pytest

from tests.unit.fake_clock import FakeClock


@pytest.fixture
def pauses(fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """The clock of the package, by which Airflow itself pauses between two pokes as well."""
    monkeypatch.setattr("airflow.sdk.bases.sensor.time", fake_clock)
    return fake_clock
