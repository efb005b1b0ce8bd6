"""What needs a newer Airflow than this one is left out, and says so."""

from __future__ import annotations

from collections import Counter

import pytest
from airflow import __version__

from airflow_provider_workflow.airflow_internals import airflow_release
from tools.evidence import print_result

TOO_OLD = f"this is {__version__}"


def lacking(item: pytest.Item) -> list[str]:
    """What a test needs that came with a newer Airflow."""
    needs = [mark.args for mark in item.iter_markers("since")]
    return [f"{feature} came with Airflow {x}.{y}" for x, y, feature in needs if airflow_release() < (x, y)]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out what needs a newer Airflow, before any fixture looks for it there."""
    if missing := lacking(item):
        pytest.skip(f"{missing[0]}, and {TOO_OLD}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests passed and why others were skipped; say nothing if none passed."""
    passed, failed, errors, skipped = (
        terminalreporter.getreports(name) for name in ("passed", "failed", "error", "skipped")
    )
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    for_newer = sum(reasons.pop(reason) for reason in list(reasons) if reason.endswith(TOO_OLD))
    parts = [f"{len(passed)} passed", f"{len(failed) + len(errors)} failed"]
    parts += [f"{for_newer} skipped, of features of a newer Airflow"] if for_newer else []
    parts += [f"{count} skipped: {reason}" for reason, count in sorted(reasons.items())]
    if passed:
        print_result(", ".join(parts))
