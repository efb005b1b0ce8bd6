"""``login``: from the URL in the terminal to tokens that tasks use (docs/service.md 10 and 14.3)."""

from __future__ import annotations

import base64
import io
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import Mock
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest

from airflow_provider_workflow.cli.main import main
from airflow_provider_workflow.client.errors import TransportError
from airflow_provider_workflow.client.user_tokens import UserTokens
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks.user_tokens import VariableStore
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from tests.unit.cli.browser import Browser
from tests.unit.client.isolation import isolated
from tests.unit.hooks.conftest import Connect, Variables, connect, variables

__all__ = ["connect", "isolated", "variables"]

REDIRECT = "https://airflow.example.com/back"


@dataclass
class Terminal:
    """
    Where the command is typed.

    :param variables: Airflow's.
    :param paste: what the user pastes, given the URL that the browser was sent back to.
    :param granted: what the user changes on the page.
    """

    emulator: EmulatorServer
    connect: Connect
    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch
    variables: dict[str, str]
    browser: Browser = field(default_factory=Browser)
    paste: Callable[[str], str] = str
    granted: dict[str, str] = field(default_factory=dict)
    back: str = ""
    out: str = ""
    err: str = ""

    def login(self, *arguments: str, extra: dict[str, Any] | None = None) -> int:
        """Run the command; return its exit code."""
        self.hook(**(extra or {}))
        self.out = self.err = ""

        class Keyboard(io.StringIO):
            def readline(keyboard, *_: Any) -> str:  # type: ignore[override]
                self._read()
                self.back = self.browser.decide(self.out.strip(), **self.granted)
                return self.paste(self.back) + "\n"

        self.monkeypatch.setattr("sys.stdin", Keyboard())
        code = main(["login", *arguments])
        self._read()
        return code

    def _read(self) -> None:
        out, err = self.capsys.readouterr()
        self.out, self.err = self.out + out, self.err + err

    def hook(self, **extra: Any) -> WorkflowHook:
        own = {"grant": "refresh_token", "verify": False, "redirect_uri": REDIRECT}
        return self.connect({**own, **extra})

    @property
    def stored(self) -> UserTokens | None:
        return VariableStore(self.hook().settings).read()

    @property
    def code(self) -> str:
        return parse_qs(urlsplit(self.back).query)["code"][0]

    @property
    def query(self) -> dict[str, str]:
        """The parameters of the URL that was printed."""
        return dict(parse_qsl(urlsplit(self.out.strip()).query))


@pytest.fixture
def terminal(
    emulator: EmulatorServer,
    connect: Connect,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    variables: Variables,
) -> Terminal:
    caplog.set_level(logging.DEBUG)
    emulator.store.configure(redirect_uris=(REDIRECT, f"{REDIRECT}/other"))
    return Terminal(emulator, connect, capsys, monkeypatch, variables)


@pytest.mark.specification("14.3 approval", "14.3 access token")
def test_a_user_logs_in_and_a_task_uses_his_token(terminal: Terminal, emulator: EmulatorServer) -> None:
    former: set[str] = set()
    for count in (1, 2):
        assert terminal.login() == 0
        assert "Logged in" in terminal.err
        assert terminal.stored is not None
        tokens = {terminal.stored.access_token, terminal.stored.refresh_token}
        assert tokens.isdisjoint(former)
        assert WorkflowHook().list_inboxes() == []
        assert emulator.requests[-1].headers["authorization"] == f"Bearer {terminal.stored.access_token}"
        assert emulator.count("token") == count
        former |= tokens


@pytest.mark.specification("10 state")
def test_the_url_is_the_authorization_page_s(terminal: Terminal, emulator: EmulatorServer) -> None:
    assert terminal.login("--scope", "external workflow") == 0
    assert terminal.out.startswith(f"{emulator.base_url}/v2/authorize?")
    first = terminal.query["state"]
    assert len(base64.urlsafe_b64decode(first + "=")) * 8 >= 128
    assert {**terminal.query, "state": ""} == {
        "response_type": "code",
        "client_id": emulator.client_id,
        "redirect_uri": REDIRECT,
        "scope": "external workflow",
        "response_mode": "query",
        "state": "",
    }
    assert terminal.login() == 0
    assert terminal.query["state"] != first
    assert terminal.query["scope"] == "external"


@pytest.mark.specification("14.3 state")
@pytest.mark.parametrize(
    ("pasted", "text"),
    [
        ("", "No URL was pasted. Run"),
        ("?code=c&state=x{state}", "state is not the one that was sent"),
        ("?error=access_denied&state=x{state}", "state is not the one that was sent"),
        ("?code=c", "state is not the one that was sent"),
        ("?code=c&state={state}&state={state}", "more than once"),
        ("?code=c&code=d&state={state}", "more than once"),
        ("?code=&state={state}", "no code. Run the command again"),
        (f"?{'x=1&' * 60}code=c&state={{state}}", "fields"),
        (
            "?error=access_denied&error_description=The+user%0D%0Asaid+no&state={state}",
            "Error: The authorization page answered 'access_denied': The user said no\n",
        ),
        (
            "?error=server_error&state={state}",
            "Error: The authorization page answered 'server_error': no reason",
        ),
    ],
)
def test_what_is_pasted_is_checked_before_anything_is_sent(
    pasted: str, text: str, terminal: Terminal, emulator: EmulatorServer, caplog: pytest.LogCaptureFixture
) -> None:
    terminal.paste = lambda _: pasted.format(state=terminal.query["state"])
    assert terminal.login() == 1
    assert text in terminal.err
    assert "unexpected" not in terminal.err
    assert emulator.count("token") == 0
    assert terminal.code not in terminal.err + caplog.text
    assert terminal.query["state"] not in terminal.err + caplog.text


@pytest.mark.specification("14.3 code")
def test_a_code_that_came_too_late(terminal: Terminal, emulator: EmulatorServer) -> None:
    def late(back: str) -> str:
        emulator.store.clock.advance(121)
        return back

    terminal.paste = late
    assert terminal.login() == 5
    assert "(invalid_grant)" in terminal.err
    assert "a code is valid once" in terminal.err
    assert terminal.variables == {}


@pytest.mark.parametrize(
    ("extra", "arguments", "exit_code", "text"),
    [
        ({"grant": "client_credentials"}, [], 5, "grant is client_credentials (set it to refresh_token"),
        ({}, ["--scope", "workflow"], 5, "scope needs external"),
        ({}, ["--conn-id", "nowhere"], 5, "'nowhere'"),
    ],
)
def test_what_is_wrong_is_named_with_its_fix_before_anything_is_sent(
    extra: dict[str, str], arguments: list[str], exit_code: int, text: str, terminal: Terminal
) -> None:
    assert terminal.login(*arguments, extra=extra) == exit_code
    assert text in terminal.err
    assert terminal.out == ""
    assert terminal.emulator.requests == []


def test_all_that_a_connection_lacks_is_named_at_once(terminal: Terminal) -> None:
    lacking = {"grant": "client_credentials", "auth_url": "", "redirect_uri": ""}
    assert terminal.login("--scope", "workflow", extra=lacking) == 5
    for problem in ("grant is ", "auth_url is missing (", "redirect_uri is missing (", "scope needs "):
        assert problem in terminal.err


def test_tokens_that_cannot_be_stored_are_said_to_be_lost(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = TransportError("the store is away", sent=False)
    monkeypatch.setattr(WorkflowHook, "store_user_tokens", Mock(side_effect=error))
    assert terminal.login() == 1
    assert "No tokens were stored. Run the command again" in terminal.err


def test_a_scope_that_the_user_did_not_grant_is_said(terminal: Terminal) -> None:
    terminal.granted["scope"] = "workflow"
    assert terminal.login() == 0
    assert "needs external, which was not granted" in terminal.err


def test_nothing_secret_is_printed_or_logged(
    terminal: Terminal, emulator: EmulatorServer, caplog: pytest.LogCaptureFixture
) -> None:
    assert terminal.login() == 0
    stored = terminal.stored
    assert stored is not None
    secrets = [terminal.code, stored.access_token, stored.refresh_token, emulator.client_secret]
    ours = (record.getMessage() for record in caplog.records if record.name.startswith("airflow"))
    output = terminal.out + terminal.err + "\n".join(ours)
    assert [secret for secret in secrets if secret in output] == []
    assert terminal.query["state"] not in terminal.err
