"""Faults are seeded into functions of the running process, and removed again."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.dispatch import runs
from tests.simulation.seeded import Fault, faults, seeded


def test_each_fault_changes_a_function() -> None:
    for each in faults():
        with seeded(each):
            pass


def test_a_fault_is_removed_again() -> None:
    sound = runs.run_id_of("a", "b")
    with seeded(next(each for each in faults() if "one run id" in each.name)):
        assert runs.run_id_of("a", "b") == "workflow__a__0000000000000000"
    assert runs.run_id_of("a", "b") == sound


def test_a_fault_that_changes_nothing_is_an_error() -> None:
    old = '    return text.encode(errors="surrogatepass")'
    with (
        pytest.raises(ValueError, match="changes no function"),
        seeded(Fault("nothing", "dispatch/runs.py", old, f"{old}  # the same", ())),
    ):
        pass
