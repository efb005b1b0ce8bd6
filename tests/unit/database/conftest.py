"""A metadata database of Airflow for each test."""

from __future__ import annotations

from tests.unit.cli.conftest import database, dead_letter_runs, engine, migrated

__all__ = ["database", "dead_letter_runs", "engine", "migrated"]
