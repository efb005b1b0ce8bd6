"""What a login checks: the connection before, the answer of the authorization page after."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from airflow.models.variable import Variable
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from airflow_provider_workflow.client.errors import ConfigurationError, LoginRequiredError, TokenStoreError
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.hooks.login import (
    AuthorizationDeniedError,
    check_ready,
    check_store,
    code_of,
    query_of,
)

REDIRECT = "https://airflow.example.com/back?tenant=1"


def settings(**changes: Any) -> Settings:
    given = {"grant": "refresh_token", "auth_url": "https://a", "redirect_uri": REDIRECT, **changes}
    return Settings("https://a", "an-id", "a-secret", "https://a/token", **given)


def test_the_code_comes_with_the_state_that_was_sent() -> None:
    assert code_of("code=a%20b&state=s", "s") == "a b"


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


def test_nothing_is_an_answer_where_nothing_was_sent() -> None:
    with pytest.raises(ValueError, match="state"):
        code_of("code=c&state=", "")


def test_a_refusal_is_told_in_one_sentence() -> None:
    with pytest.raises(AuthorizationDeniedError) as raised:
        code_of("error=access_denied&error_description=The+user%0D%0Asaid+no&state=s", "s")
    assert str(raised.value) == "The authorization page answered 'access_denied': The user said no"
    with pytest.raises(AuthorizationDeniedError, match="'server_error' and gave no reason"):
        code_of("error=server_error&state=s", "s")


@pytest.mark.parametrize(
    "address",
    [
        "https://airflow.example.com/back?tenant=1&code=c&state=s",
        "  HTTPS://Airflow.example.com/back?code=c&state=s#top \n",
    ],
)
def test_the_pasted_address_is_the_redirect_uri_s(address: str) -> None:
    assert code_of(query_of(address, REDIRECT), "s") == "c"


@pytest.mark.parametrize(
    "address",
    [
        "https://airflow.example.com/other?code=c&state=s",
        "http://airflow.example.com/back?code=c&state=s",
        "https://evil.example.com/back?code=c&state=s",
        "code=c&state=s",
        "c",
        "http://[",
    ],
)
def test_another_address_is_refused_without_being_quoted(address: str) -> None:
    with pytest.raises(ValueError) as raised:
        query_of(address, REDIRECT)
    assert "code=" not in str(raised.value)


def test_a_connection_that_is_ready() -> None:
    check_ready(settings(), "external workflow")


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


def test_the_error_of_a_task_names_the_command() -> None:
    assert "airflow-workflow login --conn-id workflow_user" in str(
        LoginRequiredError("workflow_user", "gone")
    )
    assert "--conn-id 'a b'" in str(LoginRequiredError("a b", "gone"))


# Airflow's database


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


def test_a_database_that_holds_variables_will_do(database: Callable[[bool], None]) -> None:
    database(True)
    check_store()


def test_a_database_that_is_not_set_up_is_named(database: Callable[[bool], None]) -> None:
    database(False)
    with pytest.raises(TokenStoreError, match=r"cannot be used from here \(OperationalError\).*db migrate"):
        check_store()
