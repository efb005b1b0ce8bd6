"""Where the command ``login`` is typed, with a browser beside it."""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from cryptography.fernet import Fernet

from airflow_provider_workflow.cli.main import main
from airflow_provider_workflow.client.user_tokens import UserTokens
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks import login as rules
from airflow_provider_workflow.hooks import user_tokens
from airflow_provider_workflow.hooks.user_tokens import VariableStore
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from tests.unit.cli.browser import Browser
from tests.unit.hooks.conftest import Connect


@dataclass
class Terminal:
    """
    Where the command is typed.

    :param kept: Airflow's Variables.
    :param browser: opens by itself, or when the user copies the address into it.
    :param user: what is done with the address where the browser opens by itself.
    """

    emulator: EmulatorServer
    connect: Connect
    port: int
    capsys: pytest.CaptureFixture[str]
    caplog: pytest.LogCaptureFixture
    monkeypatch: pytest.MonkeyPatch
    kept: dict[str, str]
    browser: Browser = field(default_factory=Browser)
    user: Callable[[str], Any] | None = None
    opened_in: list[threading.Thread] = field(default_factory=list)
    out: str = ""
    err: str = ""

    def login(self, *arguments: str, extra: dict[str, Any] | None = None) -> int:
        """Run the command; return its exit code."""
        self.hook(**(extra or {}))
        code = main(["login", "--timeout", "10", *arguments])
        for thread in self.opened_in:
            thread.join(10)
        self.out, self.err = self.capsys.readouterr()
        return code

    def hook(self, **extra: Any) -> WorkflowHook:
        own = {
            "grant": "refresh_token",
            "verify": False,
            "redirect_uri": f"http://127.0.0.1:{self.port}/back",
        }
        return self.connect({**own, **extra})

    def open(self, address: str) -> None:
        self.opened_in.append(threading.current_thread())
        (self.user or self.browser.open)(address)

    def paste(self, answer: Callable[[str], str]) -> None:
        """Let the user paste what he makes of the address that was printed."""
        copied = self.capsys.readouterr

        class Keyboard(io.StringIO):
            def readline(self, *_: Any) -> str:  # type: ignore[override]
                return answer(copied().out.strip())

        self.monkeypatch.setattr("sys.stdin", Keyboard())

    @property
    def stored(self) -> UserTokens | None:
        return VariableStore(self.hook().settings, lambda _: None).read()

    @property
    def query(self) -> dict[str, str]:
        """The parameters of the address that was printed."""
        return dict(parse_qsl(urlsplit(self.out.strip()).query))


@pytest.fixture
def terminal(
    emulator: EmulatorServer,
    connect: Connect,
    free_port: int,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> Terminal:
    kept: dict[str, str] = {}
    monkeypatch.setattr(user_tokens, "read_variable", kept.get)
    monkeypatch.setattr(user_tokens, "write_variable", kept.__setitem__)
    monkeypatch.setattr(rules, "check_store", lambda: None)
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", Fernet.generate_key().decode())
    caplog.set_level(logging.DEBUG)
    back = f"http://127.0.0.1:{free_port}/back"
    emulator.store.configure(redirect_uris=(back, f"{back}/other"))
    made = Terminal(emulator, connect, free_port, capsys, caplog, monkeypatch, kept)
    monkeypatch.setattr("webbrowser.open", made.open)
    return made
