"""The connection form: one table, read by the provider info and, on Airflow 3.1, by the hook's methods."""

from __future__ import annotations

import json
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import airflow
import jsonschema
import pytest
from airflow.sdk._shared.secrets_masker import should_hide_value_for_key

from airflow_provider_workflow.client.settings import EXTRA_FIELDS, FORMER_OAUTH_URL, Settings
from airflow_provider_workflow.hooks import connection
from airflow_provider_workflow.hooks.workflow import WorkflowHook


@dataclass
class StringField:
    label: str
    widget: Any
    description: str
    default: Any


class BS3TextFieldWidget:
    pass


@pytest.fixture
def form_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-ins for what only Airflow 3.1 brings."""
    modules = {
        "flask_appbuilder": {},
        "flask_appbuilder.fieldwidgets": {"BS3TextFieldWidget": BS3TextFieldWidget},
        "wtforms": {"StringField": StringField},
    }
    for name, content in modules.items():
        module = types.ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)


def test_the_form_has_every_extra_field_that_the_settings_read() -> None:
    assert set(connection.CONN_FIELDS) == set(EXTRA_FIELDS)


def test_the_defaults_of_the_form_are_those_of_the_settings() -> None:
    settings = Settings("https://a", "i", "s", "https://a/t")
    for name, field in connection.CONN_FIELDS.items():
        if "default" in field["schema"]:
            built = Settings.build(
                host="a",
                login="i",
                password="s",
                extra={"oauth_url": "https://a/t", name: field["schema"]["default"]},
            )
            assert getattr(built, name) == getattr(settings, name)


def test_the_methods_for_airflow_3_1_show_the_same_fields(form_libraries: None) -> None:
    widgets = WorkflowHook.get_connection_form_widgets()
    assert list(widgets) == list(connection.CONN_FIELDS)
    assert widgets["verify"] == StringField(
        connection.CONN_FIELDS["verify"]["label"],
        widgets["verify"].widget,
        connection.CONN_FIELDS["verify"]["description"],
        "true",
    )
    assert widgets["timeout"].default == 30
    assert widgets["oauth_url"].default is None


def test_the_standard_fields_are_valid_for_airflow() -> None:
    behaviour = WorkflowHook.get_ui_field_behaviour()
    schema = Path(airflow.__file__).parent / "customized_form_field_behaviours.schema.json"
    jsonschema.validate(behaviour, json.loads(schema.read_text()))
    assert behaviour["relabeling"] == {"host": "Base URL", "login": "Client ID", "password": "Client secret"}


def test_airflow_masks_no_field_of_the_form() -> None:
    masked = [name for name in connection.CONN_FIELDS if should_hide_value_for_key(name)]
    assert masked == []
    assert should_hide_value_for_key(FORMER_OAUTH_URL)


def test_the_field_that_is_required_stands_first_and_alone_refuses_null() -> None:
    refuse_null = [
        name for name, field in connection.CONN_FIELDS.items() if "null" not in field["schema"]["type"]
    ]
    assert refuse_null == [next(iter(connection.CONN_FIELDS))] == ["oauth_url"]
    assert connection.CONN_FIELDS["oauth_url"]["schema"]["examples"]


def test_no_secret_is_a_field_of_the_extra() -> None:
    # The extra is shown in clear to whoever may edit connections; the password is not.
    assert not any("secret" in name or "password" in name for name in connection.CONN_FIELDS)
