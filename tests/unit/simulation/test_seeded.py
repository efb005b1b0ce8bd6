"""Faults are seeded into functions of the running process, and removed again."""

from __future__ import annotations

from airflow_provider_workflow.dispatch import runs
from tests.mutations.faults import OF_DISPATCH, fault
from tests.mutations.seeded import seeded


def test_each_fault_changes_a_function() -> None:
    for each in OF_DISPATCH:
        with seeded(each):
            pass


def test_a_fault_is_removed_again() -> None:
    sound = runs.run_id_of("a", "b")
    with seeded(fault("give messages of two inboxes one run id")):
        assert runs.run_id_of("a", "b") == "workflow__a__0000000000000000"
    assert runs.run_id_of("a", "b") == sound
