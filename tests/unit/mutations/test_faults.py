"""The seeded faults fit the functions that they change."""

from __future__ import annotations

import pytest

from tests.mutations.__main__ import COUNT, all_faults
from tests.mutations.seeded import PACKAGE, seeded


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
