"""``airflow-workflow``: the commands as a console script, for every supported version of Airflow."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow import __version__
from airflow_provider_workflow.cli.definition import COMMANDS, DESCRIPTION, EXIT_CODES, Command, Group
from airflow_provider_workflow.cli.running import run

COMPLETING = "_ARGCOMPLETE"
"""Set by the shell function that ``register-python-argcomplete`` makes."""

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]


class Parser(argparse.ArgumentParser):
    """A parser that proposes commands for one that is mistyped, as that of Python 3.14 can."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            near = get_close_matches(str(value), action.choices, n=2)
            meant = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
            there = ", ".join(action.choices)
            raise argparse.ArgumentError(action, f"there is no command {value!r}{meant} (commands: {there})")
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

    For a shell that completes a command line, print the completions instead.
    """
    top = parser()
    if COMPLETING in os.environ:
        import argcomplete

        argcomplete.autocomplete(top)
    args = top.parse_args(arguments)
    return run(args.function, args)


if __name__ == "__main__":
    sys.exit(main())
