"""What surrounds every command: exit codes, one sentence for a fault, a stdout for results alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
from airflow.exceptions import AirflowException
from airflow.sdk.log import mask_secret

from airflow_provider_workflow.cli.running import run
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
    assert run(f"{HERE}.fails", Namespace(error=error)) == code

    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"Error: {error}\n"


def test_an_error_that_nobody_thought_of_is_a_sentence_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mask_secret("secret-of-this-test")
    error = KeyError("secret-of-this-test")

    assert run(f"{HERE}.fails", Namespace(error=error)) == 1
    told = capsys.readouterr().err
    assert told.startswith("Error: unexpected KeyError: '***' (AIRFLOW__LOGGING__LOGGING_LEVEL=DEBUG ")
    assert len(told.splitlines()) == 1

    monkeypatch.setenv("AIRFLOW__LOGGING__LOGGING_LEVEL", "DEBUG")
    assert run(f"{HERE}.fails", Namespace(error=error)) == 1
    told = capsys.readouterr().err
    assert "commands.py" in told
    assert "secret-of-this-test" not in told


@pytest.mark.slow
def test_an_airflow_that_cannot_be_loaded_is_a_sentence_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "airflow_provider_workflow.cli.main", "inbox", "list"],
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
    assert run(f"{HERE}.fails", Namespace(error=KeyboardInterrupt())) == 130
    assert capsys.readouterr() == ("", "")


def test_airflow_takes_a_command_for_one_of_its_own_and_no_longer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("_AIRFLOW_PROCESS_CONTEXT", raising=False)
    run(f"{HERE}.tells_context", Namespace())
    assert capsys.readouterr().out == "server\n"
    assert "_AIRFLOW_PROCESS_CONTEXT" not in os.environ

    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "client")
    run(f"{HERE}.tells_context", Namespace())
    assert os.environ["_AIRFLOW_PROCESS_CONTEXT"] == "client"


def started(function: str, **streams: object) -> subprocess.Popen[str]:
    code = (
        "import signal, sys; from argparse import Namespace\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # of tests in the background too
        "import alembic\n"  # which Airflow may load after its loggers, and then shows what that logs
        "import airflow.settings\n"  # its loggers have taken hold of stdout already
        "from airflow_provider_workflow.cli.running import run\n"
        f"sys.exit(run('{HERE}.{function}', Namespace()))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO"},
        text=True,
        **streams,  # type: ignore[call-overload]
    )


@pytest.mark.slow
def test_stdout_is_for_the_result_alone_whoever_talks() -> None:
    with started("chatters", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        out, err = process.communicate(timeout=60)

    assert process.returncode == 0
    assert json.loads(out) == {"the": "result"}
    for said in ("printed by", "written by", "logged warning", "structured warning", "told"):
        assert said in err
    for silent in ("logged info", "structured info", "deprecated"):
        assert silent not in err


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
