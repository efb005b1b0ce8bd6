"""``login``: what is checked before the user is bothered, and what is said of the end."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from airflow_provider_workflow.client.errors import TokenStoreError
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks import login as rules
from airflow_provider_workflow.hooks import user_tokens
from tests.unit.cli.terminal import Terminal, terminal
from tests.unit.client.conftest import free_port
from tests.unit.client.isolation import isolated
from tests.unit.hooks.conftest import connect

__all__ = ["connect", "free_port", "isolated", "terminal"]


@pytest.mark.parametrize(
    ("extra", "arguments", "exit_code", "said"),
    [
        ({"grant": "client_credentials"}, [], 5, "grant is client_credentials (set it to refresh_token"),
        ({"auth_url": ""}, [], 5, "auth_url is missing (set"),
        ({}, ["--scope", "workflow"], 5, "scope needs external"),
        ({}, ["--timeout", "0"], 2, "--timeout must be a whole number from 1 to 3600"),
        ({}, ["--prefill", "client_id=x"], 2, "--prefill client_id"),
        ({}, ["--prefill", "utm_source"], 2, "--prefill utm_source: must be NAME=VALUE"),
        ({}, ["--conn-id", "nowhere"], 5, "'nowhere'"),
    ],
)
def test_what_is_wrong_is_named_with_its_fix_before_anything_is_sent(
    extra: dict[str, str], arguments: list[str], exit_code: int, said: str, terminal: Terminal
) -> None:
    assert terminal.login(*arguments, extra=extra) == exit_code
    assert said in terminal.err
    assert terminal.out == ""
    assert terminal.emulator.requests == []


def test_a_database_that_is_away_is_found_out_first(terminal: Terminal) -> None:
    def away() -> None:
        raise TokenStoreError("Airflow's database cannot be used from here")

    terminal.monkeypatch.setattr(rules, "check_store", away)
    assert terminal.login() == 1
    assert "Airflow's database" in terminal.err
    assert terminal.out == ""


def test_a_fernet_key_that_is_none_is_found_out_first(terminal: Terminal) -> None:
    terminal.monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "no-such-key")
    assert terminal.login() == 1
    assert "Airflow cannot encrypt" in terminal.err
    assert "no-such-key" not in terminal.err
    assert terminal.out == ""


def test_without_a_fernet_key_the_user_is_warned(terminal: Terminal) -> None:
    terminal.monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "")
    assert terminal.login() == 0
    assert "Warning: Airflow's Fernet key is not set" in terminal.err


def test_tokens_that_cannot_be_stored_are_said_to_be_lost(terminal: Terminal) -> None:
    def away(*_: Any) -> None:
        raise RuntimeError("away")

    terminal.monkeypatch.setattr(user_tokens, "write_variable", away)
    assert terminal.login() == 1
    assert "No tokens were stored. Run the command again" in terminal.err


def test_a_scope_that_the_user_did_not_grant_is_said(terminal: Terminal) -> None:
    def narrower(address: str) -> None:
        requests.get(terminal.browser.decide(address, scope="workflow"), timeout=10)

    terminal.user = narrower
    assert terminal.login() == 0
    assert "needs external, which was not granted" in terminal.err


def test_nothing_secret_is_printed_or_logged(terminal: Terminal, emulator: EmulatorServer) -> None:
    codes: list[str] = []

    def note(address: str) -> None:
        back = terminal.browser.decide(address)
        codes.append(parse_qs(urlsplit(back).query)["code"][0])
        requests.get(back, timeout=10)

    terminal.user = note
    assert terminal.login() == 0
    stored = terminal.stored
    assert stored is not None
    secrets = [*codes, stored.access_token, stored.refresh_token, emulator.client_secret]
    shown = terminal.out + terminal.err + logged(terminal.caplog)
    assert [secret for secret in secrets if secret in shown] == []
    assert terminal.query["state"] not in terminal.err


def logged(caplog: pytest.LogCaptureFixture) -> str:
    """What was logged by anybody but the test's own browser and the service."""
    return "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("airflow"))
