"""One tree, two command lines: the same commands, options, help texts and exit codes."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.cli.cli_config import ActionCommand

import airflow_provider_workflow
from airflow_provider_workflow.cli.common import Exit
from airflow_provider_workflow.cli.main import main, parser, workflow_commands
from airflow_provider_workflow.cli.tree import EXIT_CODES
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.cli.conftest import Cli
from tests.unit.cli.database import Database
from tests.unit.cli.dead_letter_runs import DeadLetterRuns
from tests.unit.documents import PAGES, blocks, command, lines_of
from tests.unit.loading import AIRFLOW, modules_of
from tests.unit.test_parse_weight import HEAVY

cli_parser = pytest.importorskip("airflow.cli.cli_parser")

PAGE = "docs/command-line.md"
VERSION = "[--version] --version show program's version number and exit"
"""Of the console script alone: Airflow has a command for that."""
NEVER = HEAVY | {"airflow", "rich", "yaml", "uvicorn", "starlette", "cryptography"}


def leaves(among: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The actions below Airflow's groups, by the words that are typed."""
    for action in among:
        if isinstance(action, ActionCommand):
            yield (*path, action.name), action
        else:
            yield from leaves(action.subcommands, (*path, action.name))


ACTIONS = dict(leaves(workflow_commands()[0].subcommands))
PATHS = list(ACTIONS)


def airflow_parser() -> argparse.ArgumentParser:
    """Airflow's parser, with nothing but our commands in it."""
    top = argparse.ArgumentParser(prog="airflow")
    subparsers = top.add_subparsers(dest="subcommand")
    for group in workflow_commands():
        cli_parser._add_command(subparsers, group)
    return children(top)["workflow"]


def children(of: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    (action,) = (a for a in of._actions if isinstance(a, argparse._SubParsersAction))
    choices: dict[str, argparse.ArgumentParser] = action.choices
    return choices


def at(top: argparse.ArgumentParser, path: tuple[str, ...]) -> argparse.ArgumentParser:
    for name in path:
        top = children(top)[name]
    return top


def words(text: str | None) -> list[str]:
    return re.findall(r"[^\s\[\]{},.]+", (text or "").replace("airflow-workflow", "airflow workflow").lower())


def actions(of: argparse.ArgumentParser) -> dict[str, dict[str, Any]]:
    return {
        "/".join(action.option_strings) or action.dest: {
            name: value
            for name, value in vars(action).items()
            if name not in ("container", "choices") or isinstance(value, tuple)
        }
        for action in of._actions
        if not isinstance(action, argparse._SubParsersAction | argparse._HelpAction)
    }


def help_of(top: argparse.ArgumentParser) -> dict[str, Any]:
    """What a parser says of each command."""
    parsers = {" ".join(path): at(top, path) for path in PATHS}
    return {
        path: (actions(leaf), leaf.description, leaf.epilog, set(words(leaf.format_help())))
        for path, leaf in parsers.items()
    }


def test_a_command_is_the_same_in_both_ways() -> None:
    assert help_of(parser()) == help_of(airflow_parser())


@pytest.mark.parametrize("path", [(), ("dead-letters",), ("inbox",)])
def test_a_group_is_the_same_in_both_ways(path: tuple[str, ...]) -> None:
    ours, airflows = at(parser(), path), at(airflow_parser(), path)

    assert set(children(ours)) == set(children(airflows))
    own = [] if path else words(VERSION)
    assert sorted(words(ours.format_help())) == sorted(words(airflows.format_help()) + own)


@pytest.mark.parametrize("wrong", [(), ("nothing",), ("inbox", "show"), ("token", "-o", "x")])
def test_wrong_usage_is_exit_code_2(wrong: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(wrong)
    assert exit_info.value.code == 2
    assert "usage: airflow-workflow" in capsys.readouterr().err


def test_each_command_of_a_page_is_one_of_the_tree() -> None:
    lines = [line for page in PAGES for block in blocks(page, "bash") for line in lines_of(block)]
    ours = [line for line in lines if line.startswith("airflow-workflow ")]

    assert len(ours) > 20
    for line in ours:
        assert parser().parse_args(shlex.split(line, comments=True)[1:]), line


def examples(epilog: str | None) -> list[list[str]]:
    """The arguments of the command lines at the end of the help of a command."""
    lines = str(epilog).partition("\n\n")[0].splitlines()[1:]
    return [shlex.split(line.removeprefix("  airflow-workflow ")) for line in lines]


def test_help_has_an_example_of_each_command() -> None:
    top = parser()

    assert all(examples(at(top, group).epilog) for group in ((), ("dead-letters",), ("inbox",)))
    for path in PATHS:
        lines = examples(at(top, path).epilog)
        assert lines, path
        for line in lines:
            assert top.parse_args(line).func == at(top, path).get_default("func"), line


ORDER = ("put", "dead-letters", "ensure", "list", "show", "messages", "drain", "ack", "release", "lease")
"""The commands whose examples run first, as those of the others need what they leave behind."""


@pytest.mark.usefixtures("fake_clock")
def test_each_example_works(
    cli: Cli, connected_emulator: EmulatorServer, database: Database, dead_letter_runs: DeadLetterRuns
) -> None:
    database.add_dag("handle_order")
    dead_letter_runs.bury("MESSAGE_ID")
    paths = sorted(
        (path for path in PATHS if path not in (("login",), ("doctor",))),  # a browser, a triggerer
        key=lambda path: next((n for n, name in enumerate(ORDER) if name in path), len(ORDER)),
    )

    for path in paths:
        for line in examples(ACTIONS[path].epilog):
            if "LEASE_ID" in line:
                connected_emulator.put("orders", {})
                lease = cli("inbox", "lease", "orders", "-o", "json").json
                ids = {"LEASE_ID": lease["lease_id"], "MESSAGE_ID": lease["results"][0]["id"]}
                line = [ids.get(word, word) for word in line]
            elif "lease" in line:
                connected_emulator.put("orders", {})
            result = cli(*line)
            assert result.code == 0, (line, result.err)
            assert result.out, line


def test_help_has_every_exit_code_and_the_version_is_that_of_the_package(
    capsys: pytest.CaptureFixture[str],
) -> None:
    codes = {int(number) for number in re.findall(r"\d+", EXIT_CODES)}
    assert codes == set(Exit) - {Exit.CLOSED_PIPE}
    with pytest.raises(SystemExit) as exit_info:
        main(["--version"])
    assert exit_info.value.code == 0
    assert capsys.readouterr().out == f"airflow-workflow {airflow_provider_workflow.__version__}\n"


def test_no_help_text_is_taken_for_markup() -> None:
    texts = [action.help for action in ACTIONS.values()]
    texts += [arg.kwargs["help"] for action in ACTIONS.values() for arg in action.args]
    assert [text for text in texts if "[" in text] == []


def commands_without(option: str) -> set[str]:
    """The first words of the commands that lack an option."""
    return {
        path[0] for path, action in ACTIONS.items() if not any(option in arg.flags for arg in action.args)
    }


def test_a_command_that_talks_to_the_service_takes_a_connection_and_a_format() -> None:
    assert commands_without("--conn-id") == set()
    assert commands_without("--output") == {"login"}  # which has nothing to show


@pytest.mark.slow
def test_neither_an_import_by_airflow_nor_help_of_the_console_script_loads_anything_heavy() -> None:
    code = "import airflow_provider_workflow.cli.main as m\ntry: m.main(['--help'])\nexcept SystemExit: pass"
    more = modules_of(code)

    assert more & NEVER == set()
    for heavier in ("client", "hooks", "cli.common", "cli.output", "emulator.server"):
        assert f"airflow_provider_workflow.{heavier}" not in more


@pytest.mark.slow
def test_a_parser_with_all_commands_imports_nothing_heavy() -> None:
    loaded_by_airflow = "import airflow.cli.cli_parser"
    code = (
        f"{loaded_by_airflow}\nfrom airflow_provider_workflow.cli.main import workflow_commands\n"
        "airflow.cli.cli_parser.get_parser(), workflow_commands()"
    )
    more = modules_of(code, AIRFLOW)

    assert more & {"aiohttp", "jmespath", "uvicorn", "starlette"} == set()
    assert not any(name.startswith("airflow_provider_workflow.hooks") for name in more)


@pytest.mark.slow
def test_a_shell_completes_commands(tmp_path: Path) -> None:
    """As argcomplete's shell function asks, which the documented line registers."""
    assert "register-python-argcomplete airflow-workflow" in command(PAGE, 'eval "$(')
    line, answer = "airflow-workflow inbox re", tmp_path / "completions"
    asking = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
    }
    typed = [sys.executable, "-m", "airflow_provider_workflow.cli.main"]
    subprocess.run(typed, env={**os.environ, **asking}, check=True, timeout=60)
    assert set(answer.read_text().split("\n")) == {"release", "resume"}
