"""The ``notification_url`` of an inbox, made from Airflow's configuration alone."""

from __future__ import annotations

import pytest
from cryptography.fernet import Fernet

from airflow_provider_workflow.assets import create_asset, uri_of
from airflow_provider_workflow.notifications import NotificationURLError, notification_url

KEYS = ["bm90IHNlY3JldCwgYW5kIDMyIGJ5dGVzIGxvbmcuISE=", Fernet.generate_key().decode()]


@pytest.fixture(autouse=True)
def configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", KEYS[0])
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.com/prefix/")
    monkeypatch.delenv("AIRFLOW__WORKFLOW__NOTIFICATION_BASE_URL", raising=False)


def test_it_never_changes_while_the_configuration_stays() -> None:
    """A change of how it is made would cut off the inboxes that have a URL."""
    assert notification_url("orders", "workflow_default") == (
        "https://airflow.example.com/prefix/workflow/notify/workflow_default/orders/"
        "-806o1V3tanW_oJHmIrGR6O4KGo4iMivU7ysL3wgEZM"
    )


def test_its_own_option_goes_before_that_of_the_api_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__WORKFLOW__NOTIFICATION_BASE_URL", "https://hooks.example.com")

    assert notification_url("a", "b").startswith("https://hooks.example.com/workflow/notify/b/a/")


def test_each_inbox_connection_and_key_has_a_mac_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def mac(inbox: str, connection: str) -> str:
        return notification_url(inbox, connection).rpartition("/")[2]

    macs = [mac("a", "b"), mac("b", "a"), mac("a", "a"), mac("a/b", "c"), mac("b", "c/a")]
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", KEYS[1])
    macs.append(mac("a", "b"))

    assert len(set(macs)) == len(macs)
    assert {len(each) for each in macs} == {43}


def test_it_is_made_from_the_current_key(monkeypatch: pytest.MonkeyPatch) -> None:
    first = notification_url("a", "b")
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", f"{KEYS[0]} , {KEYS[1]}")

    assert notification_url("a", "b") == first


@pytest.mark.parametrize("value", ["", " ", "{FERNET_KEY}", "a-word-that-nobody-must-see", f"{KEYS[0]},"])
def test_without_a_fernet_key_an_error_names_the_fix(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", value)

    with pytest.raises(
        NotificationURLError, match=r"fernet_key is .* the value that the API server has"
    ) as caught:
        notification_url("a", "b")
    assert "nobody" not in str(caught.value)


def test_without_a_base_url_an_error_names_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW__API__BASE_URL")

    with pytest.raises(NotificationURLError, match=r"\[workflow\] notification_base_url.*\[api\] base_url"):
        notification_url("a", "b")


@pytest.mark.parametrize(
    "value",
    [
        "hooks.example.com",
        "ftp://a",
        "https://",
        "https://me:hunter2@a",
        "https://a?b",
        "https://a#b",
        "http://[",
    ],
)
def test_a_base_url_that_is_none_is_named_and_not_quoted(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("AIRFLOW__WORKFLOW__NOTIFICATION_BASE_URL", value)

    with pytest.raises(
        NotificationURLError, match=r"^\[workflow\] notification_base_url must be an http"
    ) as caught:
        notification_url("a", "b")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("name", ["orders", "a/b %2F", "é\U0001f600", ".", ".."])
def test_the_asset_that_is_notified_is_the_one_of_create_asset(name: str) -> None:
    assert create_asset(inbox=name, workflow_conn_id=name).uri == uri_of(name, name)
