"""What a wrong secret looks like to its user, and that no secret is written anywhere."""

from __future__ import annotations

import base64
import json
import sqlite3
from contextlib import closing, suppress

import pytest
from cryptography.fernet import Fernet, InvalidToken

from airflow_provider_workflow.versions import airflow_release


def test_a_wrong_client_secret_is_named_in_the_task_log(stage, inbox, wrong_secret):
    inbox.put({"n": 1})
    log = stage.start("listener_with_a_wrong_secret", inbox).fails()
    (sentence,) = {line for line in log.splitlines() if line.startswith("AuthenticationError")}
    assert "401 (invalid_client): Unknown client or wrong secret." in sentence
    assert wrong_secret not in log
    assert inbox.lease_counts == [0]


@pytest.mark.skipif(airflow_release() < (3, 3), reason="start_from_trigger needs Airflow 3.3")
def test_a_wrong_client_secret_is_named_in_the_log_of_the_trigger_too(stage, inbox, wrong_secret):
    inbox.put({"n": 1})
    log = stage.start("listener_from_trigger_with_a_wrong_secret", inbox).fails()
    assert "401 (invalid_client): Unknown client or wrong secret." in log
    assert wrong_secret not in log
    assert inbox.lease_counts == [0]


@pytest.fixture
def secrets(emulator, wrong_secret) -> list[str]:
    """Every client secret and token that Airflow had in its hands, and the forms it sends them in."""
    pairs = [f"{emulator.client_id}:{secret}" for secret in (emulator.client_secret, wrong_secret)]
    tokens = list(emulator.store.tokens._tokens)
    assert tokens
    return [
        emulator.client_secret,
        wrong_secret,
        *(base64.b64encode(pair.encode()).decode() for pair in pairs),
        *tokens,
        *emulator.store.oauth._refresh_tokens,
    ]


def found(secrets: list[str], content: bytes | str) -> list[str]:
    text = content.encode(errors="replace") if isinstance(content, str) else content
    return [secret[:4] + "..." for secret in secrets if secret.encode() in text]


@pytest.mark.last
def test_no_file_of_airflow_holds_a_client_secret_or_a_token(stage, secrets):
    files = [path for path in stage.airflow.home.rglob("*") if path.is_file()]
    assert any(path.suffix == ".log" and path.stat().st_size for path in files)
    leaks = {str(path): found(secrets, path.read_bytes()) for path in files}
    assert not {path: names for path, names in leaks.items() if names}


@pytest.mark.last
def test_no_row_of_the_database_holds_a_client_secret_or_a_token(stage, secrets):
    home = stage.airflow.home
    with closing(sqlite3.connect(f"file:{home}/airflow.db?mode=ro", uri=True)) as database:
        # Read as rows: in the file itself a long value is cut into pages.
        dump = list(database.iterdump())
        assert any(found(["workflow_default"], line) for line in dump), "it is looked at"
        assert not [line for line in dump if found(secrets, line)]
        kwargs = [row[0] for row in database.execute("SELECT kwargs FROM trigger")]
    assert kwargs, "the example listeners wait in the triggerer"
    fernet = Fernet(json.loads((home / "secrets.json").read_text())["AIRFLOW__CORE__FERNET_KEY"])
    for each in kwargs:
        with suppress(InvalidToken):  # It depends on the version whether they are encrypted.
            assert not found(secrets, fernet.decrypt(each.encode()))
