"""No simulated history of batches breaks a rule, whichever messages kill their process."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from airflow_provider_workflow.dispatch import batches
from tests.mutations.faults import FAULTS
from tests.mutations.seeded import seeded
from tests.simulation.batches import play


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Without the log lines of the package, which take longer than the histories."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(before)


def broken(seeds: range) -> dict[int, str]:
    """The seeds whose history breaks a rule, and which."""
    return {seed: rule for seed in seeds if (rule := play(seed))}


@pytest.mark.parametrize("first", range(0, 80, 20))
def test_all_rules_hold(first: int) -> None:
    assert broken(range(first, first + 20)) == {}


def test_a_seed_plays_the_same_history_each_time() -> None:
    for seed in range(5):
        first: list[str] = []
        second: list[str] = []
        play(seed, first)
        play(seed, second)
        assert first == second
        assert first


def test_messages_that_share_a_call_after_their_first_delivery_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batches, "delivery_count", lambda message: 1)

    assert any("rule B2: sound" in rule for rule in broken(range(30)).values())


def test_an_acknowledgement_before_the_call_is_noticed() -> None:
    (early,) = (fault for fault in FAULTS if fault.name.startswith("acknowledge a batch before"))
    with seeded(early):
        rules = broken(range(10)).values()

    assert rules
    assert all("rule B1: " in rule for rule in rules)
