"""What the operators share: checks of arguments, and what importing them costs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_workflow.get_provider_info import get_provider_info
from airflow_provider_workflow.operators.base import storable
from airflow_provider_workflow.operators.checks import known_later, whole_number
from tests.unit.test_parse_weight import AIRFLOW, HEAVY, loaded


def test_no_module_of_the_provider_loads_anything_heavy_where_a_dag_is_parsed() -> None:
    info = get_provider_info()
    groups = [group for kind in ("operators", "sensors", "triggers") for group in info[kind]]
    wanted = [name for group in groups for name in group["python-modules"]]
    more = loaded(f"{AIRFLOW}import {', '.join(wanted)}, airflow_provider_workflow.links") - loaded(AIRFLOW)

    assert set(wanted) <= more
    assert more & HEAVY == set()
    assert "airflow_provider_workflow.hooks.workflow" not in more


@pytest.mark.parametrize(
    ("value", "later"),
    [
        ("{{ params.x }}", True),
        ("a {% if x %}b{% endif %}", True),
        (SimpleNamespace(resolve=lambda context: 1), True),
        ("plain", False),
        ({"a": 1}, False),
        (None, False),
    ],
)
def test_templates_and_outputs_are_known_later(value: Any, later: bool) -> None:
    assert known_later(value) is later


@pytest.mark.parametrize(
    ("value", "number"), [("12", 12), (12, 12), ("x", "x"), ("", ""), ("²", "²"), (None, None)]
)
def test_a_number_that_became_text_is_a_number_again(value: Any, number: Any) -> None:
    assert whole_number(value) == number


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("Grüße 😀\n", "Grüße 😀\n"),
        ("cut \ud83d", "cut \ufffd"),
        ("\ude00\0", "\ufffd\ufffd"),
        (5, 5),
        (None, None),
    ],
)
def test_texts_are_kept_but_for_what_cannot_be_stored(value: Any, kept: Any) -> None:
    assert storable(value) == kept
