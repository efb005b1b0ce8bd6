"""``airflow-workflow``: the commands as a console script, for every supported version of Airflow."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from airflow_provider_workflow import __version__
from airflow_provider_workflow.cli.definition import COMMANDS, DESCRIPTION
from airflow_provider_workflow.cli.parts import EXIT_CODES, Command, Group
from airflow_provider_workflow.cli.running import run

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def parser() -> argparse.ArgumentParser:
    """Build the parser of all commands."""
    top = argparse.ArgumentParser(prog="airflow-workflow", description=DESCRIPTION, epilog=EXIT_CODES)
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
    """Parse the command line and run its command; return the exit code."""
    args = parser().parse_args(arguments)
    return run(args.function, args)


if __name__ == "__main__":
    sys.exit(main())
