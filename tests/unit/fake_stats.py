"""A fake of Airflow's Stats that records its calls."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from airflow_provider_workflow import airflow_internals
from airflow_provider_workflow.observers import metrics


class FakeStats:
    """
    Records metrics instead of sending them.

    ``calls`` has the name, the value and the tags of each call.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, float, dict[str, str]]] = []

    def incr(self, stat: str, count: int = 1, rate: float = 1, *, tags: Any = None) -> None:
        self.calls.append((stat, count, dict(tags)))

    def gauge(
        self, stat: str, value: float, rate: float = 1, delta: bool = False, *, tags: Any = None
    ) -> None:
        self.calls.append((stat, value, dict(tags)))

    @property
    def totals(self) -> dict[str, float]:
        """The sum of each counter, by its name without the prefix that all share."""
        totals: Counter[str] = Counter()
        for name, value, _ in self.calls:
            if (last := name.rpartition(".")[2]) not in metrics.GAUGES:
                totals[last] += int(value)
        return dict(totals)

    @property
    def tags(self) -> list[dict[str, str]]:
        return [dict(items) for items in dict.fromkeys(tuple(tags.items()) for _, _, tags in self.calls)]


@pytest.fixture
def fake_stats(monkeypatch: pytest.MonkeyPatch) -> FakeStats:
    """Airflow's Stats of a test, replaced by a fake."""
    fake = FakeStats()
    monkeypatch.setattr(airflow_internals, "stats", lambda: fake)
    return fake
