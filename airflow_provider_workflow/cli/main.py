"""
The commands for Airflow's own command line, ``airflow workflow``, and its alias ``airflow-workflow``.

Airflow imports this module for each ``airflow`` command, so it imports as little as possible. The alias has a
parser of its own: Airflow's takes seconds to load, and a person waits for help, errors and completions.
"""

from __future__ import annotations

import argparse
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow import __version__
from airflow_provider_workflow.cli.tree import COMMANDS, DESCRIPTION, EPILOG

if TYPE_CHECKING:
    from airflow.cli.cli_config import ActionCommand, GroupCommand


def workflow_commands() -> list[GroupCommand]:
    """Build the commands for Airflow's own command line; the provider info names this function."""
    from airflow.cli.cli_config import GroupCommand

    commands = [_airflow_command(command) for command in COMMANDS]
    return [GroupCommand("workflow", DESCRIPTION, commands, epilog=EPILOG)]


def _airflow_command(command: dict[str, Any]) -> ActionCommand | GroupCommand:
    """Airflow's own object for a command."""
    from airflow.cli.cli_config import ActionCommand, Arg, GroupCommand

    if "subcommands" in command:
        subcommands = [_airflow_command(subcommand) for subcommand in command["subcommands"]]
        return GroupCommand(**{**command, "subcommands": subcommands})
    args = [Arg(**fields) for fields in command["args"]]
    func = _exiting(command["func"])
    return ActionCommand(**{**command, "args": args, "func": func})


def _exiting(func: str) -> Callable[[Namespace], None]:
    """The function of a command for Airflow, which ignores what it returns."""

    def command(args: Namespace) -> None:
        sys.exit(_run(func, args))

    command.__name__ = func.rpartition(".")[2]
    return command


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line of ``airflow-workflow`` and run its command; return the exit code."""
    top = parser()
    if "_ARGCOMPLETE" in os.environ:  # a shell completes a command line
        import argcomplete

        argcomplete.autocomplete(top)
    args = top.parse_args(arguments)
    return _run(args.func, args)


def parser() -> argparse.ArgumentParser:
    """Build the parser of ``airflow-workflow``, without Airflow."""
    top = argparse.ArgumentParser(
        prog="airflow-workflow",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    _add(top, COMMANDS)
    return top


def _add(parent: argparse.ArgumentParser, commands: Iterable[dict[str, Any]]) -> None:
    """Add commands to a parser, as Airflow does."""
    subparsers = parent.add_subparsers(dest="subcommand", metavar="COMMAND", required=True)
    for command in sorted(commands, key=lambda command: command["name"]):
        text, epilog = command["help"], command["epilog"]
        sub = subparsers.add_parser(
            command["name"],
            help=text,
            description=text,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if "subcommands" in command:
            _add(sub, command["subcommands"])
            continue
        for fields in command["args"]:
            options = {name: value for name, value in fields.items() if name != "flags"}
            sub.add_argument(*fields["flags"], **options)
        sub.set_defaults(func=command["func"])


def _run(func: str, args: Namespace) -> int:
    from airflow_provider_workflow.cli.common import run

    return run(f"{__package__}.{func}", args)


if __name__ == "__main__":
    sys.exit(main())
