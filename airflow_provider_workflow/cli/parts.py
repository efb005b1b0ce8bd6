"""What the definition of the command line is made of. Imports next to nothing, as ``definition.py`` says."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

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


@dataclass(frozen=True)
class Place:
    """
    Where a redirect URI points to on this machine.

    :param host: name or address, without brackets.
    :param path: as a browser sends it.
    """

    host: str
    port: int
    path: str

    @classmethod
    def of(cls, redirect_uri: str) -> Place | None:
        """The place of a redirect URI; None where it is another machine's, or one of https."""
        parts = urlsplit(redirect_uri)
        host = parts.hostname or ""
        if parts.scheme != "http" or not is_loopback(host):
            return None
        return cls(host, parts.port or 80, parts.path or "/")

    def addresses(self) -> list[str]:
        """The addresses to listen on: a browser may take either for ``localhost``."""
        return ["127.0.0.1", "::1"] if self.host == "localhost" else [self.host]

    def is_named_by(self, header: str) -> bool:
        """Whether a Host header is the one that a browser sends for this redirect URI."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return header.lower() in {f"{name}:{self.port}", *([name] if self.port == 80 else [])}


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
