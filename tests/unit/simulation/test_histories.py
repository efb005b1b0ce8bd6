"""No simulated history breaks a rule, unless the package has a fault; a seed always plays the same one."""

from __future__ import annotations

import pytest

from tests.mutations.faults import fault
from tests.simulation.play import play, staged
from tests.simulation.teeth import first_noticed

SEEDS = 2_000
SEEDS_OF_A_FAULT = 300


@pytest.mark.parametrize("first", range(0, SEEDS, 500))
def test_all_rules_hold(first: int) -> None:
    with staged():
        broken = {seed: rule for seed in range(first, first + 500) if (rule := play(seed))}

    assert broken == {}, "make simulate SEED=... SEEDS=1 shows the history"


def test_a_seed_plays_the_same_history_each_time() -> None:
    with staged():
        for seed in range(20):
            first: list[str] = []
            second: list[str] = []
            play(seed, first)
            play(seed, second)
            assert first == second
            assert first


@pytest.mark.parametrize(
    "name",
    [
        "acknowledge before the run is started",
        "drop the acknowledgement of started runs",
        "start runs after the lease has expired",
        "lease many messages for a target that was broken",
        "start a run of another DAG for a redelivered message",
        "make dead letters of messages while the target may be at fault",
        "acknowledge a dead letter that was not started",
        "do not look for the dead letter of a redelivered message",
        "start no dead letter while the target is at fault",
        "do not acknowledge a dead letter",
        "never send a failed acknowledgement again",
        "lease the messages again that this drain left to their lease",
        "count a lease from the answer instead of the request",
    ],
)
def test_a_fault_is_noticed(name: str) -> None:
    assert first_noticed(fault(name), range(SEEDS_OF_A_FAULT)) is not None
