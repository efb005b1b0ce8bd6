"""The usual mistakes are named in plain words, with the fix, and without names of functions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from airflow_provider_workflow.client import answers, api
from airflow_provider_workflow.client.wire import Request
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.cli.conftest import Cli

UNKNOWN = "00000000-0000-4000-8000-000000000000"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ("inbox", "show", "ghost"),
            "Inbox 'ghost' does not exist: create it (airflow-workflow inbox ensure), or correct the name"
            " (see airflow-workflow inbox list)",
        ),
        (("inbox", "lease", "ghost"), "Inbox 'ghost' does not exist: create it"),
        (
            ("inbox", "messages", UNKNOWN),
            "The request for an inbox was answered with 404 (not_found): Inbox not found.",
        ),
    ],
)
def test_an_inbox_that_does_not_exist(
    cli: Cli, emulator: EmulatorServer, arguments: tuple[str, ...], text: str
) -> None:
    emulator.open_inbox("orders")
    shown = cli(*arguments)
    assert shown.code == 3
    assert shown.err.startswith(f"Error: {text}")


@pytest.mark.parametrize(("status", "text"), [(401, "401"), (403, "403"), (503, "503")])
def test_a_token_that_is_refused(cli: Cli, emulator: EmulatorServer, status: int, text: str) -> None:
    emulator.fault("status", operation="token", status=status, times=None)
    assert f"The request for an access token was answered with {text}" in cli("inbox", "list").err


def test_seconds_are_rounded() -> None:
    """The page sends its second request with what is left of its time."""
    request = Request("GET", "http://a/x", {}, {}, None, 3.98989, None)
    error = answers.no_answer(request, answers.Stage.CONNECTION, "", sent=True, timed_out=True)
    assert str(error) == "no complete answer from a within 4 s"


def test_every_call_has_words() -> None:
    source = Path(api.__file__).read_text()
    names = set(re.findall(r'(?:Call|_token)\(\s*(?:name=)?"(\w+)"', source))
    assert len(names) >= 19
    assert all(answers.request_of(name) != f"The request {name}" for name in names)
