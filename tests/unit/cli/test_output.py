"""What all commands share: output, errors, exit codes, and no secrets."""

from __future__ import annotations

import base64
import json
import logging
import os
import re
import socket
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from airflow.providers.common.compat.sdk import AirflowException
from airflow.sdk.log import mask_secret

from airflow_provider_workflow.cli import output
from airflow_provider_workflow.cli.common import LOG_LEVEL, PROCESS_CONTEXT, run
from airflow_provider_workflow.client import answers, api, errors, tolerant_json
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.marks import Marks
from tests.unit.cli.conftest import Cli
from tests.unit.cli.database import Database
from tests.unit.cli.test_tree import PATHS
from tests.unit.client.conftest import closed_port, scripted_server
from tests.unit.client.isolation import isolated
from tests.unit.client.scripted_server import ScriptedServer, answer
from tests.unit.documents import ROOT

__all__ = ["closed_port", "isolated", "scripted_server"]


EVIL = "\x1b]0;title\x07\x1b[31mred\x9b2J\u202eabc\u2028\x7f\r\nnext\0 [red]markup[/blue] :smile: %s"
FORMS = ("table", "plain", "json", "yaml")
NOT_PRINTED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2028]")

Show = Callable[..., str]
FAILS = "tests.unit.cli.commands.fails"


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Show:
    """What ``output.show`` prints."""

    def show_and_read(*arguments: Any) -> str:
        output.show(*arguments)
        text: str = capsys.readouterr().out
        return text

    return show_and_read


@pytest.mark.parametrize("form", FORMS)
def test_nothing_that_a_terminal_obeys_is_printed(show: Show, form: str) -> None:
    result = {"value": EVIL, "object": {EVIL: 1}}

    text = show(form, result, [result])

    assert not NOT_PRINTED.search(text)
    assert text.replace("\n", "").count("[red]markup[/blue] :smile: %s") == 2


@pytest.mark.parametrize("form", FORMS)
def test_a_value_that_is_nested_deep_can_be_printed(show: Show, form: str) -> None:
    deep = tolerant_json.decode("[" * 900 + "]" * 900)
    text = show(form, {"value": deep}, [{"value": deep}])
    if form in ("json", "yaml"):
        assert json.loads(text) == {"value": deep}


@pytest.mark.parametrize("form", ["table", "plain"])
def test_for_people_a_long_value_is_cut_and_a_name_like_a_number_stays(show: Show, form: str) -> None:
    text = show(form, None, [{"value": "x" * 10_000}])
    assert text.count("x") < 400
    assert "..." in text.replace("\n", "")
    for value in ("1e3", "007"):
        assert show(form, None, [{"name": value}]).splitlines()[-1].strip() == value


def test_no_id_is_cut_or_wrapped_however_narrow_the_terminal_is(
    show: Show, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow.cli.simple_table.is_tty", lambda: True)
    monkeypatch.setenv("COLUMNS", "10")
    ids = [f"0b6c2c8e-7f3a-4a52-9d0b-{number:012}" for number in range(3)]
    text = show("table", None, [{"id": inbox_id, "why": "a long reason " * 10} for inbox_id in ids])
    assert [line.split(" | ")[0] for line in text.splitlines()[2:]] == ids


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_that_airflow_knows_is_masked(show: Show, form: str) -> None:
    mask_secret("secret-of-this-test")
    value = {"deep": ["before secret-of-this-test after"]}

    text = show(form, value, [{"value": value}])

    assert "secret-of-this-test" not in text
    assert "before *** after" in text
    if form in ("json", "yaml"):
        assert yaml.safe_load(text) == {"deep": ["before *** after"]}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ServerError("broken", status=500), 1),
        (errors.ConflictError("taken", status=409), 1),
        (errors.LeaseExpiredError("too late", status=400), 1),
        (errors.RateLimitError("too many", status=429), 1),
        (errors.TransportError("no answer", sent=False), 1),
        (AirflowException("no database"), 1),
        (OSError("no file"), 1),
        (ValueError("lease_seconds must be a whole number"), 2),
        (errors.NotFoundError("no such inbox", status=404), 3),
        (errors.AuthenticationError("who are you", status=401), 5),
        (errors.ConfigurationError(["host is missing"]), 5),
    ],
)
def test_an_error_has_its_exit_code_and_one_sentence(
    capsys: pytest.CaptureFixture[str], error: Exception, code: int
) -> None:
    assert run(FAILS, Namespace(error=error)) == code
    assert capsys.readouterr() == ("", f"Error: {error}\n")


def test_an_error_of_no_known_type_is_a_sentence_without_secrets_and_traced_at_debug(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mask_secret("secret-of-this-test")
    error = KeyError("secret-of-this-test")
    assert run(FAILS, Namespace(error=error)) == 1
    stderr = capsys.readouterr().err
    assert stderr.startswith(f"Error: unexpected KeyError: '***' ({LOG_LEVEL}=DEBUG ")
    assert len(stderr.splitlines()) == 1

    monkeypatch.setenv(LOG_LEVEL, "DEBUG")
    assert run(FAILS, Namespace(error=error)) == 1
    stderr = capsys.readouterr().err
    assert "commands.py" in stderr
    assert "secret-of-this-test" not in stderr


def test_several_tables_are_one_below_the_other(show: Show) -> None:
    assert show("plain", None, [{"a": 1}], [{"b": 2}]).splitlines() == ["a", "1", "", "b", "2"]


@pytest.mark.parametrize("value", [EVIL, "\ud800", 2**70, {"a": [1, "ü"]}])
def test_a_script_gets_every_value_as_it_was(show: Show, value: Any) -> None:
    assert json.loads(show("json", {"value": value})) == {"value": value}


@pytest.mark.parametrize("before", [None, "client"])
def test_a_command_leaves_the_environment_as_it_was(
    monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    contexts: list[str | None] = []
    monkeypatch.delenv(PROCESS_CONTEXT, raising=False)
    if before is not None:
        monkeypatch.setenv(PROCESS_CONTEXT, before)
    level = os.environ.get(LOG_LEVEL)
    monkeypatch.setattr(output, "note", lambda _: contexts.append(os.environ.get(PROCESS_CONTEXT)))
    assert run("tests.unit.cli.commands.chatters", Namespace()) == 0
    assert contexts == ["server"]
    assert (os.environ.get(PROCESS_CONTEXT), os.environ.get(LOG_LEVEL)) == (before, level)


def test_a_connection_or_a_service_that_is_not_there_is_one_sentence(
    cli: Cli, emulator: EmulatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = cli("inbox", "list", "--conn-id", "nobody")
    assert (unknown.code, unknown.out, "AIRFLOW_CONN_NOBODY" in unknown.err) == (5, "", True)

    away = json.dumps(emulator.connection()).replace(f":{emulator.port}", ":1")
    monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_DEFAULT", away)
    result = cli("inbox", "list")
    assert (result.code, result.out, len(result.err.splitlines())) == (1, "", 1)


def test_a_note_has_one_line_without_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    mask_secret("secret-of-this-test")

    output.note(f"refused: secret-of-this-test {EVIL}")

    stderr = capsys.readouterr().err
    assert stderr.startswith("refused: *** ")
    assert len(stderr.splitlines()) == 1
    assert not NOT_PRINTED.search(stderr)


def test_every_call_has_words() -> None:
    source = Path(api.__file__).read_text()
    names = set(re.findall(r'(?:Call|_token)\(\s*(?:name=)?"(\w+)"', source))
    assert len(names) >= 19
    assert all(answers.request_of(name) != f"The request {name}" for name in names)


HERE = "tests.unit.cli.commands"


@pytest.mark.slow
def test_an_airflow_that_cannot_be_loaded_is_a_sentence_too() -> None:
    process = subprocess.run(
        [sys.executable, "-m", "airflow_provider_workflow.cli.main", "inbox", "list"],
        cwd=ROOT,
        env={**os.environ, "AIRFLOW__CORE__UNIT_TEST_MODE": "neither"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (process.returncode, process.stdout) == (1, "")
    assert process.stderr.startswith("Error: unexpected AirflowConfigException: ")
    assert len(process.stderr.splitlines()) == 1


def test_an_interrupted_command_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"{HERE}.fails", Namespace(conn_id=None, error=KeyboardInterrupt())) == 130
    assert capsys.readouterr() == ("", "")


def test_an_error_that_nobody_reads_has_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "write", Mock(side_effect=BrokenPipeError))
    assert run(f"{HERE}.fails", Namespace(conn_id=None, error=ValueError())) == 2


def start_command(function: str, level: str = "INFO", **streams: object) -> subprocess.Popen[str]:
    code = (
        "import sys; from argparse import Namespace\n"
        "import alembic\n"  # which Airflow may load after its loggers, and then shows what that logs
        "import airflow.settings\n"  # its loggers have taken hold of stdout already
        "from airflow_provider_workflow.cli.common import run\n"
        f"sys.exit(run('{HERE}.{function}', Namespace(conn_id=None)))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, LOG_LEVEL: level},
        text=True,
        **streams,  # type: ignore[call-overload]
    )


@pytest.mark.slow
@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_stdout_is_for_the_result_alone_unless_somebody_debugs(level: str) -> None:
    with start_command("chatters", level, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        out, err = process.communicate(timeout=60)

    assert process.returncode == 0
    assert "told" in err
    log_texts = ("logged info", "logged warning", "structured info", "structured warning")
    if level == "INFO":
        assert json.loads(out) == {"the": "result"}
        assert [text for text in (*log_texts, "deprecated") if text in err] == []
    else:
        assert [text for text in log_texts if text not in out + err] == []


@pytest.mark.slow
def test_a_pipe_that_is_closed_is_no_fault() -> None:
    with start_command("floods", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 141
        assert process.stderr.read() == ""


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
ELSEWHERE = {("login",)}
"""Commands that have tests of their own for it: test_login."""


def test_every_command_is_looked_at() -> None:
    assert set(TYPED) | ELSEWHERE == set(PATHS)


class Scene:
    """A connection whose secret is marked, and services that it may lead to."""

    def __init__(self, emulator: EmulatorServer, scripted_server: ScriptedServer, closed_port: int) -> None:
        self.marks = Marks()
        self.emulator = emulator
        self._scripted = scripted_server
        self._nobody = f"http://127.0.0.1:{closed_port}"
        emulator.store.configure(client_secret=self.marks.new("client secret"))
        emulator.put("orders", {"n": 1})

    def good(self) -> dict[str, Any]:
        return self.emulator.connection()

    def wrong_secret(self) -> dict[str, Any]:
        return {**self.good(), "password": self.marks.new("wrong secret")}

    def nobody_there(self) -> dict[str, Any]:
        return self._at(self._nobody)

    def secrets_in_addresses(self) -> dict[str, Any]:
        fields, address = self.good(), f"http://user:{self.marks.new('password')}@127.0.0.1/token"
        return {**fields, "host": address, "extra": {**fields["extra"], "oauth_url": address}}

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


FAULTS = [
    (("inbox", "list"), "wrong secret"),
    (("inbox", "list"), "nobody there"),
    (("inbox", "list"), "api that quotes"),
    (("doctor",), "secrets in addresses"),
    (("doctor",), "api that quotes"),
    (("doctor",), "token endpoint that quotes"),
    (("token",), "token endpoint that quotes"),
]
"""A command that fails says so in one place, but for these; ``client/test_settings`` has every call."""


@pytest.mark.parametrize(("path", "title"), [*((path, "good") for path in TYPED), *FAULTS], ids=str)
@pytest.mark.usefixtures("fake_clock")
def test_a_command_shows_no_secret(
    path: tuple[str, ...],
    title: str,
    cli: Cli,
    emulator: EmulatorServer,
    scripted_server: ScriptedServer,
    closed_port: int,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv(LOG_LEVEL, "DEBUG")
    scene = Scene(emulator, scripted_server, closed_port)
    monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_DEFAULT", json.dumps(getattr(scene, title.replace(" ", "_"))()))
    if path[0] == "dead-letters" or path[-1] == "drain":
        database: Database = request.getfixturevalue("database")
        database.add_dag("handle")
    result = cli(*path, *TYPED[path])
    assert result.out + result.err
    assert ("(check Token URL, and the network" in result.err) is (title == "nobody there")
    if "quotes" in title:
        assert "***" in result.out + result.err, "what the service quoted would be seen"
    assert scene.marks.kinds_in(result.out + result.err) == []
    assert scene.marks.kinds_in(caplog.text) == []
