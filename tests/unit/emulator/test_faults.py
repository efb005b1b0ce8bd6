"""Which requests a fault meets."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_workflow.emulator.faults import Faults

OPERATIONS = frozenset({"ack", "lease"})


def meets(faults: Faults, operation: str = "lease", path: str = "/x/lease") -> bool:
    return faults.take(operation, path) is not None


def test_a_fault_meets_one_request_by_default() -> None:
    faults = Faults(OPERATIONS)
    faults.add(kind="drop", operation="lease")
    assert [meets(faults), meets(faults)] == [True, False]


def test_a_fault_passes_over_the_first_requests_and_ends() -> None:
    faults = Faults(OPERATIONS)
    faults.add(kind="drop", after=1, times=2)
    assert [meets(faults) for _ in range(5)] == [False, True, True, False, False]


def test_a_fault_without_number_never_ends() -> None:
    faults = Faults(OPERATIONS)
    faults.add(kind="drop", times=None)
    assert all(meets(faults) for _ in range(100))


@pytest.mark.parametrize(
    ("rule", "met"),
    [
        ({"operation": "ack"}, False),
        ({"path": "lease$"}, True),
        ({"path": "^/y"}, False),
        ({}, True),
    ],
)
def test_a_fault_meets_what_matches_all_that_it_names(rule: dict[str, Any], met: bool) -> None:
    faults = Faults(OPERATIONS)
    faults.add(kind="drop", **rule)
    assert meets(faults) is met


def test_faults_are_used_up_in_their_order() -> None:
    faults = Faults(OPERATIONS)
    first, second = faults.add(kind="status", status=500), faults.add(kind="status", status=502)
    assert [faults.take("x", "/"), faults.take("x", "/")] == [first, second]


def test_faults_are_listed_and_lifted() -> None:
    faults = Faults(OPERATIONS)
    first, second = faults.add(kind="drop"), faults.add(kind="slow")
    assert faults.rules == [first, second]
    faults.clear(first)
    assert faults.rules == [second]
    faults.clear()
    assert faults.rules == []


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        ({}, "kind"),
        ({"kind": "explode"}, "kind"),
        ({"kind": "drop", "when": "never"}, "when"),
        ({"kind": "drop", "x": 1}, "x"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(rule: dict[str, Any], field: str) -> None:
    with pytest.raises(ValueError, match=field):
        Faults(OPERATIONS).add(**rule)


def test_an_operation_that_nobody_has_is_refused() -> None:
    faults = Faults(OPERATIONS)
    with pytest.raises(ValueError, match="ack, lease"):
        faults.add(kind="drop", operation="acknowledge")
    with pytest.raises(ValueError, match="path"):
        faults.add(kind="drop", path="(")
