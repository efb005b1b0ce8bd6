"""The seeded faults fit the source that they change."""

from __future__ import annotations

from pathlib import Path

from tests.mutations.__main__ import PACKAGE, ROOT, seeded
from tests.mutations.faults import FAULTS


def test_each_fault_changes_its_file_and_names_tests_that_exist() -> None:
    for fault in FAULTS:
        seeded(fault, (ROOT / PACKAGE / fault.file).read_text())
        assert all(list(Path(ROOT).glob(pattern)) for pattern in fault.tests), fault.name
