"""``login``: from the address in the terminal to tokens that tasks use (docs/service.md 10 and 14.3)."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from airflow_provider_workflow.cli import login
from airflow_provider_workflow.cli.login import LocalEndpoint
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from tests.unit.cli.terminal import Terminal, terminal
from tests.unit.client.conftest import free_port
from tests.unit.client.isolation import isolated
from tests.unit.hooks.conftest import connect

__all__ = ["connect", "free_port", "isolated", "terminal"]


ELSEWHERE = "https://airflow.example.com/back"


@pytest.mark.specification("14.3 approval", "14.3 access token")
def test_a_user_logs_in_and_a_task_uses_his_token(terminal: Terminal, emulator: EmulatorServer) -> None:
    assert terminal.login() == 0
    assert "Logged in" in terminal.err
    assert [page.status_code for page in terminal.browser.pages] == [200]
    assert terminal.stored is not None
    assert WorkflowHook().list_inboxes() == []
    assert emulator.requests[-1].headers["authorization"] == f"Bearer {terminal.stored.access_token}"
    assert emulator.count("token") == 1


@pytest.mark.specification("10 state")
def test_the_address_is_the_authorization_page_s(terminal: Terminal, emulator: EmulatorServer) -> None:
    assert terminal.login("--scope", "external workflow", "--prefill", "utm_source=a=b c") == 0
    assert terminal.out.startswith(f"{emulator.auth_url}/v2/authorize?")
    state = terminal.query.pop("state")
    assert len(base64.urlsafe_b64decode(state + "=")) * 8 >= 128
    assert {**terminal.query, "state": ""} == {
        "response_type": "code",
        "client_id": emulator.client_id,
        "redirect_uri": f"http://127.0.0.1:{terminal.port}/back",
        "scope": "external workflow",
        "response_mode": "query",
        "utm_source": "a=b c",
        "state": "",
    }
    first = terminal.query["state"]
    assert terminal.login() == 0
    assert terminal.query["state"] != first
    assert terminal.query["scope"] == "external"
    assert "utm_source" not in terminal.query


def test_a_second_login_replaces_the_tokens(terminal: Terminal, emulator: EmulatorServer) -> None:
    assert terminal.login() == 0
    first = terminal.stored
    WorkflowHook().list_inboxes()
    assert terminal.login() == 0
    second = terminal.stored
    assert first is not None
    assert second is not None
    assert {first.access_token, first.refresh_token}.isdisjoint({second.access_token, second.refresh_token})
    WorkflowHook().list_inboxes()
    assert emulator.requests[-1].headers["authorization"] == f"Bearer {second.access_token}"


@pytest.mark.specification("14.3 state")
def test_answers_to_another_request_do_not_end_the_wait(terminal: Terminal) -> None:
    def open_all(address: str) -> None:
        right = terminal.browser.decide(address)
        state = parse_qs(urlsplit(right).query)["state"][0]
        for wrong in (
            right.replace(state, "another"),
            right.replace("/back", "/other"),
            f"http://127.0.0.1:{terminal.port}/back?error=access_denied",
            right,
        ):
            terminal.browser.pages.append(requests.get(wrong, timeout=10))

    terminal.user = open_all
    assert terminal.login() == 0
    assert [page.status_code for page in terminal.browser.pages] == [400, 404, 400, 200]


def test_a_user_who_denies_is_told_so_in_one_sentence(terminal: Terminal) -> None:
    terminal.browser.decision = "deny"
    assert terminal.login() == 1
    assert "The authorization page answered 'access_denied'" in terminal.err.splitlines()[-1]
    assert terminal.kept == {}


@pytest.mark.specification("14.3 code")
def test_a_code_that_came_too_late(terminal: Terminal, emulator: EmulatorServer) -> None:
    def late(address: str) -> None:
        back = terminal.browser.decide(address)
        emulator.store.clock.advance(121)
        requests.get(back, timeout=10)

    terminal.user = late
    assert terminal.login() == 5
    assert "(invalid_grant)" in terminal.err
    assert "a code is valid once, and for 2 minutes" in terminal.err
    assert terminal.kept == {}


def test_a_code_that_somebody_used_before(terminal: Terminal, emulator: EmulatorServer) -> None:
    def stolen(address: str) -> None:
        back = terminal.browser.decide(address)
        code = parse_qs(urlsplit(back).query)["code"][0]
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": back.partition("?")[0]}
        emulator.store.oauth.grant(form, (emulator.client_id, emulator.client_secret))
        requests.get(back, timeout=10)

    terminal.user = stolen
    assert terminal.login() == 5
    assert "(invalid_grant)" in terminal.err
    assert terminal.kept == {}


def test_a_code_that_was_given_for_another_redirect_uri(terminal: Terminal) -> None:
    def other(address: str) -> None:
        uri = f"http://127.0.0.1:{terminal.port}/back"
        back = terminal.browser.decide(address, redirect_uri=f"{uri}/other")
        requests.get(back.replace("/other", ""), timeout=10)

    terminal.user = other
    assert terminal.login() == 5
    assert "redirect_uri is not the one" in terminal.err
    assert terminal.kept == {}


def test_nobody_comes_back(terminal: Terminal) -> None:
    class Impatient(login.Listener):
        def wait(self, seconds: float) -> str:
            assert seconds == 10
            return super().wait(0.01)

    terminal.monkeypatch.setattr("airflow_provider_workflow.cli.login.Listener", Impatient)
    assert terminal.login("--no-browser") == 1
    assert "unexpected" not in terminal.err
    assert "the browser was not redirected" in terminal.err
    assert "--paste" in terminal.err
    assert terminal.browser.pages == []


def test_ctrl_c_is_quiet(terminal: Terminal) -> None:
    def interrupt(*_: Any) -> str:
        raise KeyboardInterrupt

    terminal.monkeypatch.setattr(login.Listener, "wait", interrupt)
    assert terminal.login("--no-browser") == 130
    assert "Traceback" not in terminal.err
    assert "Error" not in terminal.err


def test_a_port_that_is_taken(terminal: Terminal) -> None:
    with login.Listener(LocalEndpoint("127.0.0.1", terminal.port, "/"), "any"):
        assert terminal.login() == 1
    assert "unexpected" not in terminal.err
    assert f"port {terminal.port} of 127.0.0.1" in terminal.err
    assert "--paste" in terminal.err


# Pasting


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [(["--paste"], {}), ([], {"redirect_uri": ELSEWHERE})],
    ids=["asked for", "redirect_uri leads elsewhere"],
)
def test_the_address_that_the_browser_ends_at_may_be_pasted(
    arguments: list[str], extra: dict[str, str], terminal: Terminal, emulator: EmulatorServer
) -> None:
    known = emulator.store.settings.redirect_uris
    emulator.store.configure(redirect_uris=(*known, ELSEWHERE))
    terminal.paste(lambda address: terminal.browser.decide(address) + "\n")
    assert terminal.login(*arguments, extra=extra) == 0
    assert "Logged in" in terminal.err
    assert terminal.browser.pages == []
    assert WorkflowHook().list_inboxes() == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda back: "", "No URL was pasted"),
        (lambda back: back.replace("state=", "state=x"), "state is not the one that was sent"),
        (lambda back: back.replace("/back", "/other"), "this is not the URL"),
        (lambda back: parse_qs(urlsplit(back).query)["code"][0], "this is not the URL"),
    ],
)
def test_what_is_pasted_is_checked_before_anything_is_sent(
    change: Callable[[str], str], said: str, terminal: Terminal, emulator: EmulatorServer
) -> None:
    seen: list[str] = []

    def answer(address: str) -> str:
        seen.append(terminal.browser.decide(address))
        return change(seen[0])

    terminal.paste(answer)
    assert terminal.login("--paste") == 1
    assert said in terminal.err
    assert "unexpected" not in terminal.err
    assert "Run the command again" in terminal.err
    assert emulator.count("token") == 0
    (code,) = parse_qs(urlsplit(seen[0]).query)["code"]
    assert code not in terminal.err + terminal.caplog.text
