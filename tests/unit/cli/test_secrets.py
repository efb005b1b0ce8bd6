"""However a command ends, and as much as it can tell: it prints and logs no secret and no token."""

from __future__ import annotations

import base64
import json
import logging
import re
import socket
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_workflow.cli.common import LOG_LEVEL
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.marks import Marks
from tests.unit.cli.conftest import Cli
from tests.unit.cli.database import Database
from tests.unit.cli.test_tree import PATHS
from tests.unit.client.conftest import closed_port, scripted
from tests.unit.client.isolation import isolated
from tests.unit.client.scripted import ScriptedServer, answer

__all__ = ["closed_port", "isolated", "scripted"]

TYPED: dict[tuple[str, ...], tuple[str, ...]] = {
    ("dead-letters", "list"): (),
    ("dead-letters", "replay"): ("--all",),
    ("dead-letters", "show"): ("a-message",),
    ("doctor",): (),
    ("guess",): ("Send an email for every order",),
    ("inbox", "list"): (),
    ("inbox", "show"): ("orders",),
    ("inbox", "ensure"): ("orders", "--app-key", "shop", "--action-key", "new_order"),
    ("inbox", "pause"): ("orders",),
    ("inbox", "resume"): ("orders",),
    ("inbox", "delete"): ("orders", "--yes"),
    ("inbox", "messages"): ("orders",),
    ("inbox", "lease"): ("orders",),
    ("inbox", "ack"): ("orders", "a-lease"),
    ("inbox", "release"): ("orders", "a-lease"),
    ("inbox", "drain"): ("orders", "--trigger-dag-id", "handle"),
    ("put",): ("orders", '{"n": 1}'),
    ("templates",): (),
    ("token",): (),
}
"""How each command is typed."""
ELSEWHERE = {("emulator",), ("login",)}
"""Commands that have tests of their own for it: test_tools, test_login."""


def test_every_command_is_looked_at() -> None:
    assert set(TYPED) | ELSEWHERE == set(PATHS)


class Scene:
    """A connection whose secret is marked, and services that it may lead to."""

    def __init__(self, emulator: EmulatorServer, scripted: ScriptedServer, closed_port: int) -> None:
        self.marks = Marks()
        self.emulator = emulator
        self._scripted = scripted
        self._nobody = f"http://127.0.0.1:{closed_port}"
        emulator.store.configure(client_secret=self.marks.new("client secret"))
        emulator.put("orders", {"n": 1})

    def good(self) -> dict[str, Any]:
        return self.emulator.connection()

    def wrong_secret(self) -> dict[str, Any]:
        return {**self.good(), "password": self.marks.new("wrong secret")}

    def nobody_there(self) -> dict[str, Any]:
        return self._at(self._nobody)

    def api_that_quotes(self) -> dict[str, Any]:
        token = self.marks.add("access token", Marks().new("token").rpartition(">")[2])
        self._scripted.token = answer(200, {"access_token": token, "scope": "external"})
        self._scripted.answers = [self._quote]
        return self._at(self._scripted.url)

    def token_endpoint_that_quotes(self) -> dict[str, Any]:
        self._scripted.token = self._quote
        self._scripted.answers = [self._quote]
        return self._at(self._scripted.url)

    def _quote(self, connection: socket.socket) -> None:
        """Refuse a request in words that hold what it was sent with, as it came and decoded."""
        # Not only the last one: a look whether anybody is there sends none, and may be seen late.
        requests = b"".join(self._scripted.token_requests + self._scripted.requests).decode("latin-1")
        kind, _, value = (re.findall(r"(?im)^authorization: (.*)\r$", requests) or [""])[-1].partition(" ")
        quoted = f"{value} {base64.b64decode(value).decode() if kind == 'Basic' else ''}"
        body = {"errors": [{"code": "x", "detail": quoted}], "error_description": quoted}
        connection.sendall(answer(401, body, close=True))

    def _at(self, url: str) -> dict[str, Any]:
        fields = self.good()
        return {**fields, "host": url, "extra": {**fields["extra"], "oauth_url": f"{url}/token"}}


SCENES: dict[str, Callable[[Scene], dict[str, Any]]] = {
    "good": Scene.good,
    "wrong secret": Scene.wrong_secret,
    "nobody there": Scene.nobody_there,
    "an API that quotes": Scene.api_that_quotes,
    "a token endpoint that quotes": Scene.token_endpoint_that_quotes,
}


FAULTS = [
    (("inbox", "list"), "wrong secret"),
    (("inbox", "list"), "nobody there"),
    (("inbox", "list"), "an API that quotes"),
    (("inbox", "drain"), "an API that quotes"),
    (("doctor",), "an API that quotes"),
    (("inbox", "list"), "a token endpoint that quotes"),
    (("token",), "a token endpoint that quotes"),
]
"""A command that fails says so in one place, but for these; ``client/test_secrets`` has every call."""


@pytest.mark.parametrize(("path", "title"), [*((path, "good") for path in TYPED), *FAULTS], ids=str)
def test_a_command_shows_no_secret(
    path: tuple[str, ...],
    title: str,
    cli: Cli,
    emulator: EmulatorServer,
    scripted: ScriptedServer,
    closed_port: int,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv(LOG_LEVEL, "DEBUG")
    scene = Scene(emulator, scripted, closed_port)
    monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_DEFAULT", json.dumps(SCENES[title](scene)))
    if path[0] == "dead-letters" or path[-1] == "drain":
        database: Database = request.getfixturevalue("database")
        database.add_dag("handle")
    shown = cli(*path, *TYPED[path])
    assert shown.out + shown.err
    if "quotes" in title:
        assert "***" in shown.out + shown.err, "what the service quoted would be seen"
    assert scene.marks.found(shown.out + shown.err) == []
    assert scene.marks.found(caplog.text) == []
