"""A metadata database of Airflow for each test."""

from __future__ import annotations

from tests.unit.cli.conftest import buried, database, migrated

__all__ = ["buried", "database", "migrated"]
