"""
The commands as data. ``main.py`` builds the parsers of both command lines from them.

Airflow imports this module for each ``airflow`` command, so it imports as little as possible.

To add a command: write a function that takes the parsed arguments and returns an exit code (see
``running.py`` for the exceptions that it may raise, ``output.py`` for how it prints its result), and add a
``Command`` with its import path to ``COMMANDS``. Nothing else needs to change.
"""

from __future__ import annotations

from airflow_provider_workflow.cli.command import (
    COMMON,
    CONN_ID,
    INBOX,
    Command,
    Group,
    Option,
    option,
)
from airflow_provider_workflow.cli.dead_letter_commands import DEAD_LETTER_GROUP
from airflow_provider_workflow.emulator.command_line import DEFAULT_PORT, OPTIONS

EXIT_CODES = (
    "Exit codes: 0 done, 1 rejected by the service or another error, 2 wrong usage, 3 not found,"
    " 4 nothing to lease, 5 wrong connection or credentials, 130 interrupted."
)


def _timeout(kind: type, default: float, limits: str) -> Option:
    return option(
        "--timeout", type=kind, default=default, metavar="SECONDS", help=f"{limits} (default: %(default)s)"
    )


_HERE = "airflow_provider_workflow.cli"

LOGIN = Command(
    "login",
    "Log a user in, for a connection with the grant refresh_token",
    f"{_HERE}.login.login",
    (
        option("--scope", help="scopes to request, separated by spaces (default: the connection's)"),
        option("--paste", action="store_true", help="paste the URL to which the browser is redirected"),
        option("--no-browser", action="store_true", help="print the URL; do not open a browser"),
        _timeout(int, 300, "how long to wait for the browser, 1 to 3600 s"),
        option(
            "--prefill",
            action="append",
            metavar="NAME=VALUE",
            help="optional parameter of the authorization page, such as sign_up_email=...",
        ),
        CONN_ID,
    ),
    description="Open the authorization page, wait until the browser is redirected to the connection's"
    " redirect_uri on this machine, and store the user's tokens. If redirect_uri is on another host, or with"
    " --paste, ask for the URL to which the browser is redirected.",
)
DOCTOR = Command(
    "doctor",
    "Examine a connection, and report each problem with its fix",
    f"{_HERE}.doctor.doctor",
    (
        option("--inbox", metavar="INBOX", help="examine only this inbox (default: all)"),
        option(
            "--listener-dag-id",
            action="append",
            metavar="DAG",
            help="a listener DAG; may be repeated (default: the DAGs that use the connection)",
        ),
        option(
            "--target-dag-id",
            action="append",
            metavar="DAG",
            help="a target DAG; may be repeated (default: the targets of the listeners)",
        ),
        *COMMON,
    ),
    description="Examine a connection: its fields, the network path to the service, tokens, inboxes, the"
    " triggerer, listener and target DAGs, and Airflow's configuration. Exit code 0 if no check failed.",
)


_INBOXES = f"{_HERE}.inboxes"

_LEASE_ID = option("lease_id", metavar="LEASE_ID", help="id of the lease")
_MESSAGE_IDS = option(
    "message_ids", nargs="*", metavar="MESSAGE_ID", help="1 to 100 messages of the lease (default: all of it)"
)

_NO_COUNTS = option(
    "--no-counts", action="store_true", help="do not count messages, which takes further requests"
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
        option(
            "--notification-url", metavar="URL", help="URL to which the service posts when messages arrive"
        ),
        option("--wait", action="store_true", help="wait until the inbox is active"),
        _timeout(float, 600.0, "maximum time to wait, above 0"),
        *COMMON,
    ),
    description="Create an inbox, or find the one of this name and subscription. It may be repeated.",
)
_DRAIN = Command(
    "drain",
    "Start one DAG run for each available message, and acknowledge it",
    "airflow_provider_workflow.cli.drain.drain",
    (
        INBOX,
        option("--trigger-dag-id", required=True, metavar="DAG", help="the DAG to start for each message"),
        option(
            "--max-messages",
            type=int,
            metavar="N",
            help="maximum number of messages, 1 or more (default: all)",
        ),
        option(
            "--max-unfinished-runs",
            type=int,
            metavar="N",
            help="runs of the DAG that may be queued and running at once, 1 or more (default: any number)",
        ),
        option("--dead-letter-dag-id", metavar="DAG", help="the DAG to start for a message that is rejected"),
        option(
            "--dead-letter-after",
            type=int,
            default=3,
            metavar="N",
            help="delivery count from which it is a dead letter, 1 to 4 (default: %(default)s)",
        ),
        *COMMON,
    ),
    description="Start one DAG run for each available message, and acknowledge it once its run exists."
    " A message has one run however often it is delivered, also by sensors and operators. Needs"
    " Airflow's metadata database, as airflow dags trigger does.",
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
            " the age of the oldest that is not quarantined. At most 500 messages of each of the first 50"
            " inboxes are counted; 500+ means that there may be more.",
        ),
        Command(
            "show",
            "Show an inbox",
            f"{_INBOXES}.show",
            (INBOX, _NO_COUNTS, *COMMON),
            description="Show an inbox with the numbers of its messages. At most 500 messages are counted;"
            " 500+ means that there may be more.",
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
            (INBOX, option("-y", "--yes", action="store_true", help="do not ask for confirmation"), *COMMON),
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
                    help="maximum number of messages, 1 to 100 (default: %(default)s)",
                ),
                option(
                    "--lease-seconds",
                    type=int,
                    default=300,
                    metavar="SECONDS",
                    help="length of the lease, 1 to 3600 (default: %(default)s)",
                ),
                *COMMON,
            ),
            description="Lease messages, and print them with their payloads. A message that is leased"
            " too often without an acknowledgement is quarantined.",
        ),
        Command(
            "ack",
            "Acknowledge leased messages: remove them for good",
            f"{_INBOXES}.acknowledge",
            (INBOX, _LEASE_ID, _MESSAGE_IDS, *COMMON),
        ),
        Command(
            "release",
            "Release leased messages: they can be leased again at once",
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
    (option("text", metavar="TEXT", help="description of the workflow"), *COMMON),
)
TEMPLATES = Command(
    "templates",
    "List workflow templates",
    f"{_HERE}.calls.templates",
    (
        option("--apps", metavar="A,B", help="only templates that use these apps, separated by commas"),
        option(
            "--limit", type=int, metavar="N", help="maximum number of templates, 1 or more (default: all)"
        ),
        *COMMON,
    ),
)
TOKEN = Command(
    "token",
    "Get an access token, and show it masked, with its expiry and its scope",
    f"{_HERE}.calls.token",
    (
        option("--scope", help="scopes, separated by spaces (default: the connection's)"),
        option(
            "--show",
            action="store_true",
            help="print only the unmasked token, for scripts; keep it out of logs and shell histories",
        ),
        *COMMON,
    ),
    description="Get an access token of the application, or, with the grant refresh_token, the user's."
    " Show it masked, with its expiry and its scope.",
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
        option("payloads", nargs="+", metavar="PAYLOAD", help="payload of a message, as JSON"),
        option("--create", action="store_true", help="create the inbox if it does not exist"),
        option(
            "--url",
            metavar="URL",
            help=f"URL of the emulator, such as http://127.0.0.1:{DEFAULT_PORT} (default: the connection's)",
        ),
        *COMMON,
    ),
    description="Put messages into an inbox of a running emulator. The real service has no such call.",
)

COMMANDS: tuple[Command | Group, ...] = (
    DEAD_LETTER_GROUP,
    DOCTOR,
    EMULATOR,
    GUESS,
    INBOX_GROUP,
    LOGIN,
    PUT,
    TEMPLATES,
    TOKEN,
)
