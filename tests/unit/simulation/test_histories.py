"""No simulated history breaks a rule, unless the package has a fault; a seed always plays the same one."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from tests.mutations.edits import becomes
from tests.mutations.fault import Fault
from tests.mutations.faults import FAULTS, OF_DISPATCH, fault
from tests.mutations.seeded import seeded
from tests.simulation.__main__ import is_noticed, main
from tests.simulation.batches import play as play_batches
from tests.simulation.play import play, staged


@pytest.mark.parametrize("first", range(0, 1_000, 500))
def test_all_rules_hold(first: int) -> None:
    with staged():
        broken = {seed: rule for seed in range(first, first + 500) if (rule := play(seed))}

    assert broken == {}, "make simulate SEED=... SEEDS=1 shows the history"


@pytest.mark.parametrize(
    ("player", "stage", "seeds"),
    [(play, staged, 20), (play_batches, nullcontext, 5)],
    ids=["runs", "batches"],
)
def test_a_seed_plays_the_same_history_each_time(player: Any, stage: Any, seeds: int) -> None:
    with stage():
        for seed in range(seeds):
            first: list[str] = []
            second: list[str] = []
            player(seed, first)
            player(seed, second)
            assert first == second
            assert first


RARE = {
    "acknowledge nothing before a message that may kill the process",
    "count a lease from the answer instead of the request",
    "dispatch a lease that ended before the task resumed",
    "do not look for the dead letter of a redelivered message",
    "give up the messages on their last safe delivery without asking the target",
    "lease as many messages as the try that was killed",
    "lease many messages after a delivery that nothing explains",
    "lease more messages than Airflow can start",
    "start messages that have their run first while acknowledging fails",
}
"""Faults that break a rule in less than one of 500 histories; the tests of dispatch notice them."""


@pytest.mark.parametrize("name", [entry.name for entry in OF_DISPATCH if entry.name not in RARE])
def test_a_fault_is_noticed(name: str) -> None:
    assert is_noticed(name, range(500))


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Without the log lines of the package, which take longer than the histories."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(before)


def broken(seeds: range) -> dict[int, str]:
    return {seed: rule for seed in seeds if (rule := play_batches(seed))}


@pytest.mark.parametrize("first", range(0, 80, 20))
def test_all_rules_of_batches_hold(first: int) -> None:
    assert broken(range(first, first + 20)) == {}


def test_messages_that_share_a_call_after_their_first_delivery_are_noticed() -> None:
    together = Fault(
        "call messages together that the function was called with before",
        "Batches._calls",
        becomes(
            "delivery.count - (delivery.id in self._postponed)", "delivery.count if delivery.count > 3 else 1"
        ),
    )
    with seeded(together):
        rules = broken(range(30)).values()

    assert any("rule B2: sound" in rule for rule in rules)


def test_an_acknowledgement_before_the_call_is_noticed() -> None:
    (early,) = (entry for entry in FAULTS if entry.name.startswith("acknowledge a batch before"))
    with seeded(early):
        rules = broken(range(10)).values()

    assert rules
    assert all("rule B1: " in rule for rule in rules)


def test_the_program_ends_with_0_if_all_rules_hold(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "3", "--workers", "0"]) == 0
    assert "\nResult: 0 of 3 histories, from seed 0 on, broke a rule (Airflow " in capsys.readouterr().out


def test_the_program_shows_a_history_that_breaks_a_rule_and_how_to_play_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with seeded(fault("acknowledge before the run is started")):
        assert main(["--seeds", "20", "--workers", "0"]) == 1

    output = capsys.readouterr().out
    assert "Play it again: make simulate SEED=" in output
    assert " of 20 histories, from seed " in output
