"""What needs a newer Airflow than this one is left out, and says so."""

from __future__ import annotations

import pytest
from airflow import __version__

from airflow_provider_workflow.airflow_internals import airflow_release


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out what needs a newer Airflow, before any fixture looks for it there."""
    for mark in item.iter_markers("since"):
        major, minor, what = mark.args
        if airflow_release() < (major, minor):
            pytest.skip(f"{what} came with Airflow {major}.{minor}, and this is {__version__}")
