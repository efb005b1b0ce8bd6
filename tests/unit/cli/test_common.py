"""What surrounds every command: exit codes, one sentence for a fault, a stdout for results alone."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
from airflow.exceptions import AirflowException
from airflow.sdk.log import mask_secret

from airflow_provider_workflow.cli.common import LOG_LEVEL, run
from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    ConfigurationError,
    ConflictError,
    LeaseExpiredError,
    LoginRequiredError,
    NotFoundError,
    RateLimitError,
    ServerError,
    TransportError,
)
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.cli.conftest import Cli

ROOT = Path(__file__).parents[3]
HERE = "tests.unit.cli.commands"
MODULE = "airflow_provider_workflow.cli.main"


def failing(error: BaseException) -> int:
    return run(f"{HERE}.fails", Namespace(conn_id=None, error=error))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ServerError("broken", status=500), 1),
        (ConflictError("taken", status=409), 1),
        (LeaseExpiredError("too late", status=400), 1),
        (RateLimitError("too many", status=429), 1),
        (TransportError("no answer", sent=False), 1),
        (AirflowException("no database"), 1),
        (OSError("no file"), 1),
        (ValueError("lease_seconds must be a whole number"), 2),
        (NotFoundError("no such inbox", status=404), 3),
        (AuthenticationError("who are you", status=401), 5),
        (LoginRequiredError("workflow_default", "gone"), 5),
        (ConfigurationError(["host is missing"]), 5),
    ],
)
def test_every_fault_has_its_exit_code_and_one_sentence(
    capsys: pytest.CaptureFixture[str], error: Exception, code: int
) -> None:
    assert failing(error) == code
    assert capsys.readouterr() == ("", f"Error: {error}\n")


def test_an_error_that_nobody_thought_of_is_a_sentence_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mask_secret("secret-of-this-test")
    error = KeyError("secret-of-this-test")

    assert failing(error) == 1
    told = capsys.readouterr().err
    assert told.startswith("Error: unexpected KeyError: '***' (AIRFLOW__LOGGING__LOGGING_LEVEL=DEBUG ")
    assert len(told.splitlines()) == 1

    monkeypatch.setenv(LOG_LEVEL, "DEBUG")
    assert failing(error) == 1
    told = capsys.readouterr().err
    assert "commands.py" in told
    assert "secret-of-this-test" not in told


@pytest.mark.slow
def test_an_airflow_that_cannot_be_loaded_is_a_sentence_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", MODULE, "inbox", "list"],
        cwd=ROOT,
        env={**os.environ, "AIRFLOW__CORE__UNIT_TEST_MODE": "neither"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: unexpected AirflowConfigException: ")
    assert len(done.stderr.splitlines()) == 1


def test_an_interrupted_command_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert failing(KeyboardInterrupt()) == 130
    assert capsys.readouterr() == ("", "")


def test_the_environment_and_the_log_levels_are_as_they_were_afterwards(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("_AIRFLOW_PROCESS_CONTEXT", raising=False)
    before = (dict(os.environ), logging.root.manager.disable)
    run(f"{HERE}.tells_context", Namespace(conn_id=None))
    assert capsys.readouterr().out == "server\n"
    assert (dict(os.environ), logging.root.manager.disable) == before


def started(function: str, level: str = "INFO", **streams: object) -> subprocess.Popen[str]:
    code = (
        "import signal, sys; from argparse import Namespace\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # of tests in the background too
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
    with started("chatters", level, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        out, err = process.communicate(timeout=60)

    assert process.returncode == 0
    assert "told" in err
    logged = ("logged info", "logged warning", "structured info", "structured warning")
    if level == "INFO":
        assert json.loads(out) == {"the": "result"}
        assert [text for text in (*logged, "deprecated") if text in err] == []
    else:
        assert [text for text in logged if text not in out + err] == []


@pytest.mark.slow
def test_a_pipe_that_is_closed_is_no_fault() -> None:
    with started("floods", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 141
        assert process.stderr.read() == ""


@pytest.mark.slow
def test_ctrl_c_ends_a_command_quietly() -> None:
    pipe = subprocess.PIPE
    with started("waits", stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == ""


def test_a_connection_that_does_not_exist_is_said_with_its_fix(cli: Cli) -> None:
    shown = cli("inbox", "list", "--conn-id", "nobody")

    assert (shown.code, shown.out) == (5, "")
    assert "'nobody'" in shown.err
    assert "AIRFLOW_CONN_NOBODY" in shown.err


def test_every_field_that_is_missing_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_EMPTY", json.dumps({"conn_type": "workflow"}))

    shown = cli("inbox", "list", "--conn-id", "empty")

    assert shown.code == 5
    assert all(field in shown.err for field in ("host", "login", "password", "oauth_url"))


def test_a_service_that_is_away_is_a_fault(
    cli: Cli, emulator: EmulatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = emulator.connection_json().replace(f":{emulator.port}", ":1")
    monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_DEFAULT", away)

    shown = cli("inbox", "list")

    assert (shown.code, shown.out) == (1, "")
    assert len(shown.err.splitlines()) == 1
