"""``make simulate``, and the seeding of faults into the running process."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.dispatch import runs
from tests.mutations.faults import fault
from tests.mutations.seeded import seeded
from tests.simulation.__main__ import main


def test_it_ends_with_0_if_all_rules_hold(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "3", "--workers", "0"]) == 0
    assert capsys.readouterr().out.startswith("0 of 3 histories broke a rule")


def test_it_shows_a_history_that_breaks_a_rule_and_how_to_play_it(capsys: pytest.CaptureFixture[str]) -> None:
    with seeded(fault("acknowledge before the run is started")):
        assert main(["--seeds", "20", "--workers", "0"]) == 1

    shown = capsys.readouterr().out
    assert "Play it again: make simulate SEED=" in shown
    assert "of 20 histories broke a rule" in shown


def test_a_fault_is_removed_again() -> None:
    sound = runs.run_id_of("a", "b")
    with seeded(fault("give messages of two inboxes one run id")):
        assert runs.run_id_of("a", "b") == "workflow__a__0000000000000000"
    assert runs.run_id_of("a", "b") == sound
