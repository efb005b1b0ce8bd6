"""The time of a sensor that pokes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.workbench import FakeTime


class Pauses(FakeTime):
    """The pauses of a sensor in poke mode, in each of which something may happen."""

    def __init__(self) -> None:
        super().__init__()
        self.happen: list[Callable[[], object]] = []

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self.happen:
            self.happen.pop(0)()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    fake = Pauses()
    monkeypatch.setattr("airflow.sdk.bases.sensor.time", fake)
    return fake
