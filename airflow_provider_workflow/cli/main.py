"""
The commands as a console script (``airflow-workflow``, with every supported version of Airflow), and for
Airflow's own command line (``airflow workflow``).

Airflow imports this module for each ``airflow`` command, so it imports as little as possible.
"""

from __future__ import annotations

import argparse
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow import __version__
from airflow_provider_workflow.cli.command import Command, Group
from airflow_provider_workflow.cli.definition import COMMANDS, DESCRIPTION, EXIT_CODES

COMPLETING = "_ARGCOMPLETE"
"""Environment variable that argcomplete's shell function sets."""

if TYPE_CHECKING:
    from airflow.cli.cli_config import ActionCommand, CLICommand, GroupCommand

    Subparsers = argparse._SubParsersAction[Any]


class Parser(argparse.ArgumentParser):
    """A parser that suggests commands for a mistyped one, as the parser of Python 3.14 can."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            from difflib import get_close_matches

            near = get_close_matches(str(value), action.choices, n=2)
            hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
            known = ", ".join(action.choices)
            raise argparse.ArgumentError(action, f"there is no command {value!r}{hint} (commands: {known})")
        super()._check_value(action, value)


def parser() -> argparse.ArgumentParser:
    """Build the parser of all commands."""
    top = Parser(prog="airflow-workflow", description=DESCRIPTION, epilog=EXIT_CODES)
    top.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    _add(top.add_subparsers(dest="subcommand", metavar="COMMAND", required=True), COMMANDS)
    return top


def _add(subparsers: Subparsers, commands: Iterable[Command | Group]) -> None:
    for each in sorted(commands, key=lambda each: each.name):
        description = each.help if isinstance(each, Group) else each.description or each.help
        sub = subparsers.add_parser(each.name, help=each.help, description=description, epilog=EXIT_CODES)
        if isinstance(each, Group):
            _add(sub.add_subparsers(dest="subcommand", metavar="COMMAND", required=True), each.commands)
            continue
        for option in each.options:
            sub.add_argument(*option.flags, **option.given)
        sub.set_defaults(function=each.function)


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Parse the command line and run its command; return the exit code.

    If a shell completes a command line, print the completions instead.
    """
    top = parser()
    if COMPLETING in os.environ:
        import argcomplete

        argcomplete.autocomplete(top)
    args = top.parse_args(arguments)
    return _run(args.function, args)


def _run(function: str, args: Namespace) -> int:
    from airflow_provider_workflow.cli.running import run

    return run(function, args)


def workflow_commands() -> list[CLICommand]:
    """Build the commands for Airflow's own command line; the provider info names this function."""
    from airflow.cli.cli_config import GroupCommand

    commands = [_group(each) if isinstance(each, Group) else _action(each) for each in COMMANDS]
    return [GroupCommand("workflow", DESCRIPTION, commands, epilog=EXIT_CODES)]


def _group(group: Group) -> GroupCommand:
    from airflow.cli.cli_config import GroupCommand

    return GroupCommand(group.name, group.help, [_action(each) for each in group.commands], epilog=EXIT_CODES)


def _action(command: Command) -> ActionCommand:
    from airflow.cli.cli_config import ActionCommand, Arg

    return ActionCommand(
        command.name,
        command.help,
        _running(command.function),
        [Arg(each.flags, **each.given) for each in command.options],
        description=command.description,
        epilog=EXIT_CODES,
    )


def _running(function: str) -> Callable[[Namespace], None]:
    def command(args: Namespace) -> None:
        # Airflow ignores the return value of a command.
        sys.exit(_run(function, args))

    command.__name__ = function.rpartition(".")[2]
    return command


if __name__ == "__main__":
    sys.exit(main())
