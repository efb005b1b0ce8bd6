"""
Every command as data, from which ``main.py`` builds a parser for each of the two command lines.

Airflow imports this module whenever somebody types ``airflow``, so it imports next to nothing.

To add a command: write a function that takes the parsed arguments and returns an exit code (see
``running.py`` for what it may raise, ``output.py`` for how it shows its result), and add a ``Command``
to ``COMMANDS`` that names it by its import path. Nothing else has to know of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_provider_workflow.emulator.command_line import DEFAULT_PORT, OPTIONS
from airflow_provider_workflow.receiver import options as receiver

EXIT_CODES = (
    "Exit codes: 0 done, 1 rejected by the service or another error, 2 wrong usage, 3 not found,"
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


_HERE = "airflow_provider_workflow.cli"

LOGIN = Command(
    "login",
    "Log a user in, for a connection with the grant refresh_token",
    f"{_HERE}.login.login",
    (
        option("--scope", help="scopes to ask the user for, separated by spaces (default: the connection's)"),
        option("--paste", action="store_true", help="paste the address that the browser ends at"),
        option("--no-browser", action="store_true", help="print the address alone; open no browser"),
        option(
            "--timeout",
            type=int,
            default=300,
            metavar="SECONDS",
            help="how long to wait for the browser, 1 to 3600 s (default: %(default)s)",
        ),
        option(
            "--prefill",
            action="append",
            metavar="NAME=VALUE",
            help="optional parameter of the authorization page, such as sign_up_email=...",
        ),
        CONN_ID,
    ),
    description="Open the authorization page, wait for the browser to come back to the connection's"
    " redirect_uri on this machine, and store the user's tokens. Where redirect_uri leads elsewhere, or with"
    " --paste, ask for the address that the browser ends at.",
)
DOCTOR = Command(
    "doctor",
    "Examine a connection, and say what is wrong and how to fix it",
    f"{_HERE}.doctor.doctor",
    (
        option("--inbox", metavar="INBOX", help="examine this inbox alone (default: all)"),
        option(
            "--listener-dag-id",
            action="append",
            metavar="DAG",
            help="a DAG that is to listen; may be repeated (default: those that use the connection)",
        ),
        option(
            "--target-dag-id",
            action="append",
            metavar="DAG",
            help="a DAG that messages are to start; may be repeated (default: those of the listeners)",
        ),
        *COMMON,
    ),
    description="Examine a connection: its fields, the way to the service, tokens, inboxes, the triggerer,"
    " the DAGs that listen and those that they start, and the Airflow that it is used from. Exit code 0"
    " where nothing failed.",
)


_INBOXES = f"{_HERE}.inboxes"

_LEASE_ID = option("lease_id", metavar="LEASE_ID", help="the lease that the messages are held by")
_MESSAGE_IDS = option(
    "message_ids", nargs="*", metavar="MESSAGE_ID", help="1 to 100 messages of the lease (default: all of it)"
)

_NO_COUNTS = option(
    "--no-counts", action="store_true", help="leave out the numbers of messages, which take further requests"
)

_ENSURE = Command(
    "ensure",
    "Create an inbox, or find the one of this name and subscription",
    f"{_INBOXES}.ensure",
    (
        option("name", metavar="NAME", help="name of the inbox, up to 100 characters"),
        option("--app-key", required=True, help="the app: versioned, versionless, @latest or a slug"),
        option("--action-key", required=True, help="the app's trigger"),
        option("--inputs", metavar="JSON", help="the trigger's fields, a JSON object"),
        option("--connection-id", help="the account at the app: UUID or whole number"),
        option("--notification-url", metavar="URL", help="told by POST when messages arrive"),
        option("--wait", action="store_true", help="wait until the inbox is active"),
        option(
            "--timeout",
            type=float,
            default=600.0,
            metavar="SECONDS",
            help="how long to wait at most, above 0 (default: %(default)s)",
        ),
        *COMMON,
    ),
    description="Create an inbox, or find the one of this name and subscription. It may be repeated.",
)
_DRAIN = Command(
    "drain",
    "Start one DAG run for each message that is there, and acknowledge it",
    "airflow_provider_workflow.cli.drain.drain",
    (
        INBOX,
        option("--trigger-dag-id", required=True, metavar="DAG", help="the DAG to start for each message"),
        option("--max-messages", type=int, metavar="N", help="messages at most, 1 or more (default: all)"),
        option(
            "--max-unfinished-runs",
            type=int,
            metavar="N",
            help="runs of the DAG that may be queued and running at once, 1 or more (default: any number)",
        ),
        *COMMON,
    ),
    description="Start one DAG run for each message that is there, and acknowledge it once its run exists."
    " A message has one run however often it comes, and shares it with sensors and operators. Needs"
    " Airflow's metadata database, as the command airflow dags trigger does.",
)

INBOX_GROUP = Group(
    "inbox",
    "Manage trigger inboxes and their messages",
    (
        Command(
            "list",
            "List inboxes",
            f"{_INBOXES}.list_inboxes",
            (
                option(
                    "--status",
                    choices=("initializing", "active", "paused", "deleting", "initialization_failure"),
                    help="only inboxes with this status: %(choices)s",
                ),
                _NO_COUNTS,
                *COMMON,
            ),
            description="List inboxes with the numbers of their messages: waiting, leased, quarantined, and"
            " the age of the oldest that is not quarantined. Counted are the first pages of the first 50"
            " inboxes; 500+ means that there may be more.",
        ),
        Command(
            "show",
            "Show an inbox",
            f"{_INBOXES}.show",
            (INBOX, _NO_COUNTS, *COMMON),
            description="Show an inbox with the numbers of its messages, of which the first pages are"
            " counted; 500+ means that there may be more.",
        ),
        _ENSURE,
        Command(
            "pause",
            "Pause an inbox: its messages stay, new events are dropped",
            f"{_INBOXES}.pause",
            (INBOX, *COMMON),
        ),
        Command("resume", "Resume a paused inbox", f"{_INBOXES}.resume", (INBOX, *COMMON)),
        Command(
            "delete",
            "Delete an inbox with all the messages in it",
            f"{_INBOXES}.delete",
            (INBOX, option("-y", "--yes", action="store_true", help="do not ask"), *COMMON),
        ),
        Command(
            "messages",
            "List the messages of an inbox, without their payloads",
            f"{_INBOXES}.list_messages",
            (
                INBOX,
                option(
                    "--status",
                    choices=("available", "leased", "acked", "quarantined"),
                    help="only messages with this status: %(choices)s",
                ),
                *COMMON,
            ),
        ),
        Command(
            "lease",
            "Lease messages, and print them with their payloads",
            f"{_INBOXES}.lease",
            (
                INBOX,
                option(
                    "--limit",
                    type=int,
                    default=10,
                    metavar="N",
                    help="messages at most, 1 to 100 (default: %(default)s)",
                ),
                option(
                    "--lease-seconds",
                    type=int,
                    default=300,
                    metavar="SECONDS",
                    help="how long they stay leased, 1 to 3600 (default: %(default)s)",
                ),
                *COMMON,
            ),
            description="Lease messages, and print them with their payloads. Each lease that ends without an"
            " acknowledgement brings a message nearer to its quarantine.",
        ),
        Command(
            "ack",
            "Acknowledge leased messages: remove them for good",
            f"{_INBOXES}.acknowledge",
            (INBOX, _LEASE_ID, _MESSAGE_IDS, *COMMON),
        ),
        Command(
            "release",
            "Release leased messages, to be leased again at once",
            f"{_INBOXES}.release",
            (INBOX, _LEASE_ID, _MESSAGE_IDS, *COMMON),
        ),
        _DRAIN,
    ),
)


DESCRIPTION = "Commands of the workflow provider: inboxes, their messages, tokens, and a local service."

GUESS = Command(
    "guess",
    "Guess a workflow from a description",
    f"{_HERE}.calls.guess",
    (option("text", metavar="TEXT", help="what the workflow is to do"), *COMMON),
)
TEMPLATES = Command(
    "templates",
    "List workflow templates",
    f"{_HERE}.calls.templates",
    (
        option("--apps", metavar="A,B", help="only templates that use these apps, separated by commas"),
        option("--limit", type=int, metavar="N", help="templates at most, 1 or more (default: all)"),
        *COMMON,
    ),
)
TOKEN = Command(
    "token",
    "Get an access token, and show it masked, with its end and its scope",
    f"{_HERE}.calls.token",
    (
        option("--scope", help="scopes, separated by spaces (default: the connection's)"),
        option(
            "--show",
            action="store_true",
            help="print the token itself, unmasked and alone, for scripts; keep it out of logs and histories",
        ),
        *COMMON,
    ),
    description="Get an access token of the application, or, with the grant refresh_token, the user's."
    " Show it masked, with its end and its scope.",
)
EMULATOR = Command(
    "emulator",
    "Run a local workflow service until Ctrl-C",
    f"{_HERE}.emulator.serve",
    tuple(option(flag, **keywords) for flag, keywords in OPTIONS),
    description="Run a local workflow service until Ctrl-C: guess, templates, tokens, promotions,"
    " and inboxes.",
)
PUT = Command(
    "put",
    "Put messages into an inbox of a running emulator",
    f"{_HERE}.emulator.put",
    (
        INBOX,
        option("payloads", nargs="+", metavar="PAYLOAD", help="a message's payload, as JSON"),
        option("--create", action="store_true", help="create the inbox, active, if it is missing"),
        option(
            "--url",
            metavar="URL",
            help=f"where it is, such as http://127.0.0.1:{DEFAULT_PORT} (default: host of the connection)",
        ),
        *COMMON,
    ),
    description="Put messages into an inbox of a running emulator. The real service has no such call.",
)
RECEIVER = Command(
    "receiver",
    receiver.HELP,
    f"{_HERE}.receiver.receiver",
    tuple(option(flag, **given) for flag, given in receiver.OPTIONS),
    description=receiver.DESCRIPTION,
)

COMMANDS: tuple[Command | Group, ...] = (
    DOCTOR,
    EMULATOR,
    GUESS,
    INBOX_GROUP,
    LOGIN,
    PUT,
    RECEIVER,
    TEMPLATES,
    TOKEN,
)
