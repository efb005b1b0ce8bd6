"""Options of the receiver: each fault names its cure."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_workflow.receiver import options
from airflow_provider_workflow.receiver.app import Settings
from airflow_provider_workflow.receiver.arguments import routes_of, settings_of, urls_of

SECRET = "s" * 40
ENVIRONMENT = {options.SECRET: SECRET}


def parsed(**given: Any) -> argparse.Namespace:
    values = {flag.lstrip("-").replace("-", "_"): rest.get("default") for flag, rest in options.OPTIONS}
    values |= {"route": ["orders=dispatch"], "airflow_url": "https://airflow.example.com/team/"}
    return argparse.Namespace(**{**values, **given})


def check(environment: dict[str, str] | None = None, **given: Any) -> Settings:
    return settings_of(parsed(**given), ENVIRONMENT if environment is None else environment)


def test_the_least_that_is_needed() -> None:
    settings = check()
    assert settings.routes == {"orders": "dispatch"}
    assert settings.airflow_url == "https://airflow.example.com/team"
    assert settings.credentials.username is None
    assert settings.credentials.password is None
    assert settings.credentials.token is None


def test_the_name_of_an_inbox_may_hold_an_equals_sign() -> None:
    routes = routes_of(["a=b=dispatch", "orders=dispatch.more", "orders=dispatch.more"])
    assert routes == {"a=b": "dispatch", "orders": "dispatch.more"}


def test_urls_are_shown_without_an_airflow() -> None:
    shown = urls_of(parsed(airflow_url=None, show_urls="https://hooks.example.com/in/"), ENVIRONMENT)
    path = check().addresses.path("orders")
    assert shown == {"orders": f"https://hooks.example.com/in{path}"}


def test_secrets_come_from_files_or_from_the_environment(tmp_path: Path) -> None:
    password, token, secret = (tmp_path / name for name in ("password", "token", "secret"))
    password.write_text("a-password")
    token.write_text("a-token")
    of_file = check({}, secret_file=str(secret), airflow_username="me", airflow_password_file=str(password))
    assert of_file.credentials.password is not None
    assert of_file.credentials.password() == "a-password"
    of_environment = check({**ENVIRONMENT, options.PASSWORD: "b-password"}, airflow_username="me")
    assert of_environment.credentials.password is not None
    assert of_environment.credentials.password() == "b-password"
    for found in (
        check(airflow_token_file=str(token)),
        check({**ENVIRONMENT, options.TOKEN: "a-token"}),
    ):
        assert found.credentials.token is not None
        assert found.credentials.token() == "a-token"
    assert SECRET not in repr(of_environment)
    assert "b-password" not in repr(of_environment)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"route": ["orders"]}, "--route 'orders' is not INBOX=DAG_ID"),
        ({"route": ["orders=a/b"]}, "is not INBOX=DAG_ID"),
        ({"route": ["or\nders=dispatch"]}, "is not INBOX=DAG_ID"),
        ({"route": ["orders=a", "orders=b"]}, "--route: the inbox 'orders' has two DAGs"),
        ({"airflow_url": None}, "--airflow-url is missing"),
        ({"airflow_url": "airflow:8080"}, "--airflow-url is no web address"),
        ({"airflow_url": "http://me:pw@airflow"}, "--airflow-url must hold no credentials"),
        ({"airflow_url": "http://airflow/?token=pw"}, "--airflow-url must hold no credentials and no query"),
        ({"airflow_ca_file": "/missing"}, "--airflow-ca-file names no file with CA certificates: No such"),
        (
            {"airflow_ca_file": __file__},
            "--airflow-ca-file names no file with CA certificates: it holds none",
        ),
        ({"airflow_token_file": "/missing"}, "--airflow-token-file names no file"),
        ({"airflow_username": "me"}, "--airflow-username needs a password"),
        ({"airflow_password_file": __file__}, "a password a user name"),
        ({"airflow_username": "me", "airflow_token_file": __file__}, "not both"),
        ({"secret_file": "/tmp/secret"}, f"--secret-file and {options.SECRET} are both given"),
    ],
)
def test_a_wrong_option_is_named_with_its_cure(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as caught:
        check(**given)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize(
    ("environment", "given", "problem"),
    [
        ({}, {}, "--secret-file is missing"),
        ({options.SECRET: "short"}, {}, f"{options.SECRET} must hold secrets of at least 32"),
        ({**ENVIRONMENT, options.TOKEN: "t"}, {"airflow_token_file": __file__}, "are both given"),
        ({**ENVIRONMENT, options.PASSWORD: "p"}, {}, "--airflow-username needs a password"),
    ],
)
def test_a_wrong_secret_is_named_with_its_cure(
    environment: dict[str, str], given: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        check(environment, **given)


@pytest.mark.parametrize("url", ["hooks.example.com", "https://h/?a=b"])
def test_a_public_address_has_to_be_one(url: str) -> None:
    with pytest.raises(ValueError, match="--show-urls"):
        urls_of(parsed(show_urls=url), ENVIRONMENT)
