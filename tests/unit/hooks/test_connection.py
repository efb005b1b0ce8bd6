"""The connection: its form, its test, the login of a user, its files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from airflow.models.variable import Variable
from airflow.sdk._shared.secrets_masker import should_hide_value_for_key
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from airflow_provider_workflow.client.errors import ConfigurationError, TokenStoreError
from airflow_provider_workflow.client.settings import EXTRA_FIELDS, Settings
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks import connection
from airflow_provider_workflow.hooks.login import (
    AuthorizationDeniedError,
    check_ready,
    check_store,
    code_of,
)
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from tests.unit import odd_files
from tests.unit.client.conftest import closed_port
from tests.unit.hooks.conftest import Connect

__all__ = ["closed_port"]


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


REDIRECT = "https://airflow.example.com/back?tenant=1"


def settings(**changes: Any) -> Settings:
    given = {"grant": "refresh_token", "auth_url": "https://a", "redirect_uri": REDIRECT, **changes}
    return Settings("https://a", "an-id", "a-secret", "https://a/token", **given)


@pytest.mark.specification("14.3 state")
@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("code=c&state=other", "state is not the one"),
        ("code=c", "state is not the one"),
        ("error=access_denied&state=other", "state is not the one"),
        ("", "state is not the one"),
        ("code=c&state=s&state=s", "more than once"),
        ("code=c&code=d&state=s", "more than once"),
        ("state=s", "no code"),
        ("code=&state=s", "no code"),
        ("&".join("x=1" for _ in range(60)), "fields"),
    ],
)
def test_what_is_no_answer_to_ours_is_refused(query: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as raised:
        code_of(query, "s")
    assert "other" not in str(raised.value)


def test_a_refusal_is_told_in_one_sentence() -> None:
    with pytest.raises(AuthorizationDeniedError) as raised:
        code_of("error=access_denied&error_description=The+user%0D%0Asaid+no&state=s", "s")
    assert str(raised.value) == "The authorization page answered 'access_denied': The user said no"
    with pytest.raises(AuthorizationDeniedError, match="'server_error' and gave no reason"):
        code_of("error=server_error&state=s", "s")


def test_all_that_a_connection_lacks_is_named_at_once() -> None:
    with pytest.raises(ConfigurationError) as raised:
        check_ready(settings(grant="client_credentials", auth_url="", redirect_uri=""), "workflow")
    assert [problem.split()[0] for problem in raised.value.problems] == [
        "grant",
        "auth_url",
        "redirect_uri",
        "scope",
    ]
    assert all("(" in problem for problem in raised.value.problems), "each has its fix"


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Puts an empty database in the place of Airflow's, with or without its tables."""

    def put(migrated: bool) -> None:
        engine = create_engine("sqlite://")
        if migrated:
            Variable.metadata.tables["variable"].create(engine)

        @contextmanager
        def session() -> Iterator[Session]:
            with Session(engine) as opened:
                yield opened

        monkeypatch.setattr("airflow.utils.session.create_session", session)

    return put


def test_a_database_that_is_not_set_up_is_named(database: Callable[[bool], None]) -> None:
    database(False)
    with pytest.raises(TokenStoreError, match=r"cannot be used from here \(OperationalError\).*db migrate"):
        check_store()


def says(hook: WorkflowHook) -> str:
    passed, text = hook.test_connection()
    assert not passed
    assert "\n" not in text
    return text


def test_a_right_connection_passes_with_one_token(hook: WorkflowHook, emulator: EmulatorServer) -> None:
    assert hook.test_connection() == (True, "A token was issued and the trigger inbox API accepts it.")
    assert [each.operation for each in emulator.requests] == ["token", "list_inboxes"]


def test_an_unknown_scope(connect: Connect) -> None:
    assert "(invalid_scope)" in says(connect({"scope": "unheard-of"}))


@pytest.mark.parametrize("path", ["/wrong-path", "/wrong/path"])
def test_a_wrong_path(path: str, connect: Connect) -> None:
    assert "answered with 404" in says(connect({"inbox_path": path}))


def test_a_bundle_of_certificates_that_is_gone(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/no/such/file.pem")
    assert says(connect()).startswith("The workflow connection cannot be used: REQUESTS_CA_BUNDLE")


FILES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")


@pytest.mark.parametrize("variable", FILES)
@pytest.mark.parametrize("kind", odd_files.KINDS)
async def test_a_variable_of_the_environment_names_a_file_of_certificates_or_itself_as_wrong(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, variable: str
) -> None:
    hook = connect()
    with odd_files.made(kind, tmp_path) as path:
        monkeypatch.setenv(variable, path)
        with pytest.raises(ConfigurationError) as raised:
            hook.list_inboxes()
        with pytest.raises(ConfigurationError) as in_trigger:
            async with hook.async_client():
                pass
    (problem,) = raised.value.problems
    assert problem == f"{variable} names a file that {odd_files.KINDS[kind]} (correct or unset it)"
    assert in_trigger.value.problems == [problem]


@pytest.mark.parametrize("kind", [kind for kind in odd_files.KINDS if kind != "missing"])
def test_a_folder_of_the_environment_has_files_of_certificates_only(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    folder = tmp_path / "certs"
    folder.mkdir()
    monkeypatch.setenv("SSL_CERT_DIR", str(folder))
    with odd_files.made(kind, tmp_path) as path:
        (folder / "0123abcd.0").symlink_to(path)
        with pytest.raises(ConfigurationError) as raised:
            connect().list_inboxes()
    (problem,) = raised.value.problems
    assert problem == (
        f"SSL_CERT_DIR names a folder with the file 0123abcd.0, which {odd_files.KINDS[kind]}"
        " (correct or unset it)"
    )


@pytest.mark.parametrize("kind", ["missing", "empty", "pipe"])
def test_a_folder_of_the_environment_is_a_folder(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    with odd_files.made(kind, tmp_path) as path:
        monkeypatch.setenv("SSL_CERT_DIR", path)
        with pytest.raises(ConfigurationError, match="SSL_CERT_DIR names no folder that can be read"):
            connect().list_inboxes()
