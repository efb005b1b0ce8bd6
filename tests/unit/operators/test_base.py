"""What the operators share, and what importing them costs."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_workflow.get_provider_info import get_provider_info
from airflow_provider_workflow.operators.base import storable
from tests.unit.loading import AIRFLOW, loaded
from tests.unit.test_parse_weight import HEAVY


@pytest.mark.slow
def test_no_module_of_the_provider_loads_anything_heavy_where_a_dag_is_parsed() -> None:
    info = get_provider_info()
    groups = [group for kind in ("operators", "sensors", "triggers") for group in info[kind]]
    wanted = [name for group in groups for name in group["python-modules"]]
    more = loaded(f"import {', '.join(wanted)}, airflow_provider_workflow.links", AIRFLOW)

    assert set(wanted) <= more
    assert more & HEAVY == set()
    assert "airflow_provider_workflow.hooks.workflow" not in more


@pytest.mark.parametrize(
    ("value", "kept"),
    [("Grüße 😀\n", "Grüße 😀\n"), ("cut \ud83d", "cut \ufffd"), ("\ude00\0", "\ufffd\ufffd"), (5, 5)],
)
def test_texts_are_kept_but_for_what_cannot_be_stored(value: Any, kept: Any) -> None:
    assert storable(value) == kept
