"""What can be set in Airflow's configuration, and what holds where nothing is."""

from __future__ import annotations

import pytest

from airflow_provider_workflow import config
from airflow_provider_workflow.config import max_event_streams, page, quarantine_check_seconds


@pytest.mark.parametrize(
    ("read", "default"),
    [(max_event_streams, 500), (quarantine_check_seconds, 600)],
    ids=["max_event_streams", "quarantine_check_seconds"],
)
def test_an_option_has_a_default_and_is_a_setting(
    read: object, default: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(read)
    assert read() == default
    monkeypatch.setenv(f"AIRFLOW__WORKFLOW__{read.__name__.upper()}", "7")
    assert read() == 7


def test_the_page_is_on_unless_it_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert page()
    for value, is_on in {"on": True, " True": True, "off": False, "False": False, "oof": False}.items():
        monkeypatch.setenv("AIRFLOW__WORKFLOW__PAGE", value)
        assert page() is is_on


def test_every_option_is_read_by_a_function_of_its_name() -> None:
    assert all(callable(getattr(config, option)) for option in config.OPTIONS)
