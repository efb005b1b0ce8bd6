"""What a command consists of, and the options that several commands share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Option:
    """
    An argument of a command.

    :param flags: the name of a positional argument; or the option's short form, if any, then its long one.
    :param given: further arguments of ``add_argument``.
    """

    flags: tuple[str, ...]
    given: dict[str, Any]


@dataclass(frozen=True)
class Command:
    """
    A command.

    :param function: import path of the function that takes the parsed arguments and returns an exit code.
    :param options: positional arguments first, in their order.
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
    """An ``Option``, with the arguments of ``add_argument``. No square brackets: Airflow reads markup."""
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
"""Options of each command that calls the service."""
INBOX = option("inbox", metavar="INBOX", help="id or name of the inbox")
SINCE = option(
    "--since",
    metavar="TIME",
    help="only since then: 90s, 30m, 2h, 7d, or a time such as 2026-01-31T08:00 (UTC if it names no zone)",
)
