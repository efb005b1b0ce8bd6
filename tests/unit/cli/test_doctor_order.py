"""The order of the doctor's checks, and one that breaks itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from airflow_provider_workflow.cli.doctor import CHECKS
from airflow_provider_workflow.cli.doctor_findings import Check, Finding, Subject, examine


def test_every_check_needs_only_checks_before_it() -> None:
    seen: set[str] = set()
    for check in CHECKS:
        assert set(check.needs) <= seen
        seen.add(check.name)


def test_a_check_that_breaks_is_a_finding_that_quotes_nothing() -> None:
    def breaks(_: Subject) -> Iterator[Finding]:
        yield Finding("first", "ok", "fine")
        raise RuntimeError("with a secret in it")

    checks = (Check("first", breaks), Check("second", breaks, ("first",)))
    found = [asdict(each) for each in examine(checks, Subject("any"))]
    assert [each["status"] for each in found] == ["ok", "failed", "skipped"]
    assert found[1]["detail"] == "the check itself failed: RuntimeError"
