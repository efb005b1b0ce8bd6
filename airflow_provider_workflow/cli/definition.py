"""
Every command as data, from which ``main.py`` and ``for_airflow.py`` build a parser each.

Airflow imports this module whenever somebody types ``airflow``, so it imports next to nothing.

To add a command: write a function that takes the parsed arguments and returns an exit code (see
``running.py`` for what it may raise, ``output.py`` for how it shows its result), and add a ``Command``
to ``COMMANDS`` that names it by its import path. Nothing else has to know of it.
"""

from __future__ import annotations

from airflow_provider_workflow.cli.connection_definition import DOCTOR, LOGIN
from airflow_provider_workflow.cli.inbox_definition import INBOX_GROUP
from airflow_provider_workflow.cli.parts import COMMON, INBOX, Command, Group, option
from airflow_provider_workflow.emulator.command_line import DEFAULT_PORT, OPTIONS
from airflow_provider_workflow.receiver import options as receiver

_HERE = "airflow_provider_workflow.cli"

DESCRIPTION = "Commands of the workflow provider: inboxes, their messages, tokens, and a local service."

GUESS = Command(
    "guess",
    "Guess a workflow from a text",
    f"{_HERE}.suggestions.guess",
    (option("text", metavar="TEXT", help="what the workflow is to do"), *COMMON),
)
TEMPLATES = Command(
    "templates",
    "List workflow templates",
    f"{_HERE}.suggestions.templates",
    (
        option("--apps", metavar="A,B", help="only templates that use these apps, separated by commas"),
        option("--limit", type=int, metavar="N", help="templates at most, 1 or more (default: all)"),
        *COMMON,
    ),
)
TOKEN = Command(
    "token",
    "Get an access token, and show it masked, with its end and its scope",
    f"{_HERE}.tokens.token",
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
