"""Airflow's Stats as a list of what it was told."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from airflow_provider_workflow import airflow_internals
from airflow_provider_workflow.observers import metrics


class Counted:
    """
    Takes metrics as Airflow's Stats does.

    :param fault: raised instead.
    """

    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault
        self.told: list[tuple[str, float, dict[str, str]]] = []

    def incr(self, stat: str, count: int = 1, rate: float = 1, *, tags: Any = None) -> None:
        self._tell(stat, count, tags)

    def gauge(
        self, stat: str, value: float, rate: float = 1, delta: bool = False, *, tags: Any = None
    ) -> None:
        self._tell(stat, value, tags)

    def _tell(self, stat: str, value: float, tags: Any) -> None:
        if self.fault is not None:
            raise self.fault
        self.told.append((stat, value, dict(tags)))

    @property
    def totals(self) -> dict[str, float]:
        """The sum of each counter, without the beginning that they share."""
        totals: Counter[str] = Counter()
        for name, value, _ in self.told:
            if name != metrics.OLDEST_AGE:
                totals[name.rpartition(".")[2]] += int(value)
        return dict(totals)

    @property
    def tags(self) -> list[dict[str, str]]:
        """The tags of all that was told, each once."""
        return [dict(each) for each in dict.fromkeys(tuple(tags.items()) for _, _, tags in self.told)]

    @property
    def ages(self) -> list[float]:
        """The ages of the oldest messages, in their order."""
        return [value for name, value, _ in self.told if name == metrics.OLDEST_AGE]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """What is told to Airflow's Stats in a test."""
    fake = Counted()
    monkeypatch.setattr(airflow_internals, "stats", lambda: fake)
    return fake
