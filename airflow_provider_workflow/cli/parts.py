"""What the definition of the command line is made of. Imports next to nothing, as ``definition.py`` says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

EXIT_CODES = (
    "Exit codes: 0 done, 1 refused by the service or a fault, 2 wrong usage, 3 not found,"
    " 4 nothing to lease, 5 the connection or its credentials are at fault, 130 interrupted."
)


@dataclass(frozen=True)
class Option:
    """
    An argument of a command.

    :param flags: the name of a positional argument; or the option's short form, if any, then its long one.
    :param given: what else ``argparse`` is told of it.
    """

    flags: tuple[str, ...]
    given: dict[str, Any]


@dataclass(frozen=True)
class Command:
    """
    A command.

    :param function: import path of what runs it: takes the parsed arguments, returns an exit code.
    :param options: its arguments, positional ones first and in their order.
    """

    name: str
    help: str
    function: str
    options: tuple[Option, ...] = ()
    description: str | None = None


@dataclass(frozen=True)
class Group:
    """Commands under a common name."""

    name: str
    help: str
    commands: tuple[Command, ...]


def option(*flags: str, **given: Any) -> Option:
    """An ``Option``, written as ``argparse`` has it; without square brackets, as Airflow reads markup."""
    return Option(flags, given)


CONN_ID = option(
    "--conn-id",
    default="workflow_default",
    metavar="ID",
    help="Airflow connection of type workflow (default: %(default)s)",
)
OUTPUT = option(
    "-o",
    "--output",
    choices=("table", "json", "yaml", "plain"),
    default="table",
    help="how the result is printed: table, json, yaml or plain (default: %(default)s)",
)
COMMON = (CONN_ID, OUTPUT)
"""What every command that talks to the service takes."""
INBOX = option("inbox", metavar="INBOX", help="id or name of the inbox")
