"""What needs a newer Airflow than this one is left out, and says so."""

from __future__ import annotations

import pytest
from airflow import __version__

from airflow_provider_workflow.airflow_internals import airflow_release


def lacking(item: pytest.Item) -> list[str]:
    """What a test needs that came with a newer Airflow."""
    needs = [mark.args for mark in item.iter_markers("since")]
    return [f"{feature} came with Airflow {x}.{y}" for x, y, feature in needs if airflow_release() < (x, y)]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out what needs a newer Airflow, before any fixture looks for it there."""
    if missing := lacking(item):
        pytest.skip(f"{missing[0]}, and this is {__version__}")
