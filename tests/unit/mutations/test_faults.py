"""The seeded faults fit the functions that they change."""

from __future__ import annotations

import pytest

from airflow_provider_workflow import plugin
from tests.mutations.__main__ import COUNT, all_faults
from tests.mutations.edits import becomes
from tests.mutations.fault import Fault
from tests.mutations.seeded import PACKAGE, seeded


def test_a_fault_of_a_package_is_seeded_into_the_module_that_runs() -> None:
    fault = Fault("no page", "airflow_plugin._react_apps", becomes("[page]", "[]"))
    assert len(plugin.WorkflowPlugin.react_apps) == 1

    with seeded(fault):
        assert plugin.WorkflowPlugin.react_apps == []

    assert len(plugin.WorkflowPlugin.react_apps) == 1


@pytest.mark.slow
@pytest.mark.since(3, 3, "what some modules import")
def test_each_fault_changes_one_function() -> None:
    faults = all_faults()
    sources = [fault.seeded(PACKAGE) for fault in faults]

    assert all(compile(source, file, "exec") for file, source in sources)
    assert len({fault.name for fault in faults}) == COUNT
    for fault in faults:
        with seeded(fault):
            pass
