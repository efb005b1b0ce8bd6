"""What helps somebody who types: proposals for a mistyped command, and the shell's completion."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Cli
from tests.unit.documents import command

PAGE = "docs/command-line.md"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [(("inbx", "list"), "did you mean 'inbox'?"), (("inbox", "dran", "orders"), "did you mean 'drain'?")],
)
def test_a_mistyped_command_is_wrong_usage_with_a_proposal(
    cli: Cli, typed: tuple[str, ...], meant: str
) -> None:
    shown = cli(*typed)

    assert (shown.code, shown.out) == (2, "")
    assert meant in shown.err


def test_a_command_that_is_like_no_other_is_answered_with_all_of_them(cli: Cli) -> None:
    shown = cli("inbox", "xyzzy")

    assert shown.code == 2
    assert "there is no command 'xyzzy' (commands: " in shown.err
    assert "drain" in shown.err
    assert "did you mean" not in shown.err


def completions(line: str, tmp_path: Path) -> set[str]:
    """What the shell is given for a command line, as argcomplete's shell function asks for it."""
    answer = tmp_path / "completions"
    asking = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
    }
    command = [sys.executable, "-m", "airflow_provider_workflow.cli.main"]
    subprocess.run(command, env={**os.environ, **asking}, check=True, timeout=60)
    return set(answer.read_text().split("\n"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("airflow-workflow in", {"inbox"}),
        ("airflow-workflow inbox re", {"release", "resume"}),
        ("airflow-workflow inbox list --status pa", {"paused"}),
        ("airflow-workflow inbox drain --trig", {"--trigger-dag-id"}),
    ],
)
def test_commands_options_and_choices_are_completed(line: str, expected: set[str], tmp_path: Path) -> None:
    assert completions(line, tmp_path) == expected


@pytest.mark.slow
def test_the_documented_line_registers_the_completion() -> None:
    line = command(PAGE, 'eval "$(register-python-argcomplete').strip()
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    script = f"{line}\ncomplete -p airflow-workflow"

    done = subprocess.run(
        ["bash", "-e", "-c", script], env=env, capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout.strip().endswith("-F _python_argcomplete airflow-workflow")
