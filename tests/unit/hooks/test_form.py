"""The connection form, as Airflow reads it in the provider info."""

from __future__ import annotations

from airflow.sdk._shared.secrets_masker import should_hide_value_for_key

from airflow_provider_workflow.client.settings import EXTRA_FIELDS, Settings
from airflow_provider_workflow.hooks import connection


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


def test_airflow_masks_no_field_of_the_form() -> None:
    masked = [name for name in connection.CONN_FIELDS if should_hide_value_for_key(name)]
    assert masked == []
    assert should_hide_value_for_key("token_url")


def test_the_field_that_is_required_stands_first_and_alone_refuses_null() -> None:
    refuse_null = [
        name for name, field in connection.CONN_FIELDS.items() if "null" not in field["schema"]["type"]
    ]
    assert refuse_null == [next(iter(connection.CONN_FIELDS))] == ["oauth_url"]
    assert connection.CONN_FIELDS["oauth_url"]["schema"]["examples"]


def test_no_secret_is_a_field_of_the_extra() -> None:
    # The extra is shown in clear to whoever may edit connections; the password is not.
    assert not any("secret" in name or "password" in name for name in connection.CONN_FIELDS)
