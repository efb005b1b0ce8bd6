"""The seeded faults fit the functions that they change."""

from __future__ import annotations

import pytest

from airflow_provider_workflow import observers
from tests.mutations.__main__ import COUNT, all_faults, report
from tests.mutations.edits import becomes
from tests.mutations.fault import Fault
from tests.mutations.forks import Outcome
from tests.mutations.seeded import seeded
from tests.unit.fake_stats import FakeStats


def test_a_fault_of_a_package_is_seeded_into_the_module_that_runs(fake_stats: FakeStats) -> None:
    fault = Fault("tell nobody", "observers.notify", becomes("_observers()", "()"))

    for _ in range(2):
        observers.notify("replayed", inbox="orders", conn_id="workflow_default")
        with seeded(fault):
            observers.notify("replayed", inbox="orders", conn_id="workflow_default")

    assert fake_stats.totals == {"replayed": 2}


def test_the_result_names_the_tests_that_were_not_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert report([Outcome("a", "dispatch", 1, ["test_a"], True)], ["test_b"]) == 0
    assert "Result: 1 of 1 faults were noticed: dispatch 1/1; tests that fail without a fault: test_b (" in (
        capsys.readouterr().out
    )


@pytest.mark.slow
@pytest.mark.since(3, 3, "what some modules import")
def test_each_fault_changes_one_function() -> None:
    faults = all_faults()

    assert len({fault.name for fault in faults}) == COUNT
    for fault in faults:
        with seeded(fault):
            pass
