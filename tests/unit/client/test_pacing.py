"""When a thread that computes rests."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.client import json_steps
from airflow_provider_workflow.client.json_steps import REST_SECONDS, Pace


class FakeTime:
    """Moves when a test says so, or somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds + 64  # others take their time


def test_it_rests_once_a_turn_however_often_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    time = FakeTime()
    monkeypatch.setattr(json_steps, "time", time)
    monkeypatch.setattr(json_steps, "TURN_SECONDS", 8)
    pace = Pace()
    for _ in range(100):
        time.now += 1
        pace()

    assert time.slept == [REST_SECONDS] * 12, "the time that others take is not of its turn"
