"""
The commands as data: the fields of Airflow's ``ActionCommand``, ``GroupCommand`` and ``Arg``.

``main.py`` makes Airflow's own objects of them, and the parser of ``airflow-workflow``. Each ``airflow``
command imports this module, so it imports nothing heavy.

To add a command, write a function that takes the parsed arguments and returns an exit code, and add an
``_action`` with its import path and an example. ``common.py`` runs it, and a test runs the example.
"""

from __future__ import annotations

from typing import Any

DESCRIPTION = "Manage inboxes, messages and dead letters, and examine the connection."
EXIT_CODES = (
    "Exit codes: 0 done, 1 rejected by the service or another error, 2 wrong usage,\n"
    "3 not found, 4 nothing to lease, 5 wrong connection or credentials,\n"
    "130 interrupted."
)


def _epilog(*examples: str) -> str:
    """What help ends with. :param examples: command lines, without ``airflow-workflow``."""
    return "\n  airflow-workflow ".join(("Examples:", *examples)) + f"\n\n{EXIT_CODES}"


EPILOG = _epilog("put orders '{\"number\": 1}' --create", "inbox list", "doctor")
"""What the help of all commands together ends with."""


def _arg(*flags: str, **options: Any) -> dict[str, Any]:
    """The fields of an ``Arg``. No square brackets in texts: Airflow reads them as markup."""
    return {"flags": flags, **options}


def _action(name: str, help: str, func: str, *args: dict[str, Any], examples: list[str]) -> dict[str, Any]:
    """
    The fields of an ``ActionCommand``.

    :param func: the import path of its function within ``cli/``, such as ``inboxes.show``.
    :param examples: command lines, without ``airflow-workflow``; words in capitals stand for ids.
    """
    return {"name": name, "help": help, "func": func, "args": args, "epilog": _epilog(*examples)}


def _group(name: str, help: str, *subcommands: dict[str, Any], examples: list[str]) -> dict[str, Any]:
    """The fields of a ``GroupCommand``; see ``_action``."""
    return {"name": name, "help": help, "subcommands": subcommands, "epilog": _epilog(*examples)}


def _switch(*flags: str, help: str) -> dict[str, Any]:
    """The fields of an ``Arg`` that takes no value: True if it is given."""
    return _arg(*flags, action="store_true", help=help)


def _status(of: str, *states: str) -> dict[str, Any]:
    """The fields of an ``Arg`` that selects by status."""
    return _arg("--status", choices=states, help=f"only {of} with this status: %(choices)s")


def _conn_id(help: str) -> dict[str, Any]:
    """The fields of an optional ``Arg`` for a connection, without a default."""
    return _arg("--conn-id", metavar="ID", help=help)


def _inbox(help: str) -> dict[str, Any]:
    """The fields of an optional ``Arg`` for an inbox."""
    return _arg("--inbox", metavar="INBOX", help=help)


def _number(flag: str, help: str, default: int | None = None) -> dict[str, Any]:
    """The fields of an ``Arg`` that is a whole number."""
    help += "" if default is None else " (default: %(default)s)"
    return _arg(flag, type=int, default=default, metavar="N", help=help)


CONN_ID = _arg(
    "--conn-id",
    default="workflow_default",
    metavar="ID",
    help="Airflow connection of type workflow (default: %(default)s)",
)
OUTPUT = _arg(
    "-o",
    "--output",
    choices=("table", "json", "yaml", "plain"),
    default="table",
    help="format of the result: table, json, yaml or plain (default: %(default)s)",
)
SERVICE_OPTIONS = (CONN_ID, OUTPUT)
"""Options of each command that calls the service."""
INBOX = _arg("inbox", metavar="INBOX", help="id or name of the inbox")
NO_COUNTS = _switch("--no-counts", help="do not count messages: fewer requests")
LEASED_MESSAGES = (
    INBOX,
    _arg("lease_id", metavar="LEASE_ID", help="id of the lease, which inbox lease prints"),
    _arg("message_ids", nargs="*", metavar="MESSAGE_ID", help="up to 100 messages (default: all)"),
)
"""Arguments that name leased messages."""
DEAD_LETTER_FILTERS = (
    _arg(
        "--dag-id",
        action="append",
        metavar="DAG",
        help="only dead letters of this DAG, even if no listener names it; may be repeated",
    ),
    _conn_id("only dead letters of this Airflow connection"),
    _inbox("only dead letters of this inbox: its id, or with --conn-id its name"),
)
"""Options that select dead letters."""
SINCE = _arg(
    "--since",
    metavar="TIME",
    help="only dead letters since then: 90s, 30m, 2h or 7d ago, or at a time such as 2026-01-31T08:00"
    " (UTC without a zone)",
)
REASON = _arg(
    "--reason",
    choices=("rejected", "expression", "invalid", "unmatched", "target", "undecided", "failed"),
    help="only dead letters with this reason: %(choices)s",
)

DEAD_LETTERS = _group(
    "dead-letters",
    "Show dead letters, and start the runs of their messages",
    _action(
        "list",
        "List dead letters, the newest first, without their payloads",
        "dead_letters.list_dead_letters",
        *DEAD_LETTER_FILTERS,
        SINCE,
        REASON,
        _number("--limit", "maximum number of dead letters, 1 or more", 100),
        OUTPUT,
        examples=["dead-letters list --since 7d --reason invalid"],
    ),
    _action(
        "show",
        "Show a dead letter with its message, payload included: keep it out of logs",
        "dead_letters.show",
        _arg("id", metavar="ID", help="id of the message, or of the dead letter's run"),
        *DEAD_LETTER_FILTERS,
        OUTPUT,
        examples=["dead-letters show MESSAGE_ID"],
    ),
    _action(
        "replay",
        "Start the runs that the messages of dead letters were meant to start, unless they exist",
        "dead_letters.replay",
        _arg("ids", nargs="*", metavar="ID", help="ids of messages, or of the dead letters' runs"),
        _switch("--all", help="replay all dead letters"),
        *DEAD_LETTER_FILTERS,
        SINCE,
        REASON,
        _arg(
            "--trigger-dag-id",
            metavar="DAG",
            help="the DAG to start (default: the target of the dead letter)",
        ),
        _switch("--dry-run", help="start nothing; count the runs that would be started"),
        OUTPUT,
        examples=[
            "dead-letters replay --since 2h --reason rejected --dry-run",
            "dead-letters replay MESSAGE_ID",
        ],
    ),
    examples=["dead-letters list"],
)

INBOXES = _group(
    "inbox",
    "Manage trigger inboxes and their messages",
    _action(
        "list",
        "List inboxes, and count their messages",
        "inboxes.list_inboxes",
        _status("inboxes", "initializing", "active", "paused", "deleting", "initialization_failure"),
        NO_COUNTS,
        *SERVICE_OPTIONS,
        examples=["inbox list", "inbox list --status paused"],
    ),
    _action(
        "show",
        "Show an inbox",
        "inboxes.show",
        INBOX,
        NO_COUNTS,
        *SERVICE_OPTIONS,
        examples=["inbox show orders"],
    ),
    _action(
        "ensure",
        "Create an inbox, or find the one of this name and subscription",
        "inboxes.ensure",
        _arg("name", metavar="NAME", help="name of the inbox, up to 100 characters"),
        _arg(
            "--app-key",
            required=True,
            help="key of the app, such as CrmAPI@1.2.0, CrmAPI or CrmAPI@latest; or its slug",
        ),
        _arg("--action-key", required=True, help="key of the event"),
        _arg("--inputs", metavar="JSON", help="its fields, a JSON object"),
        _arg("--connection-id", help="the service's id of the account at the app: UUID or whole number"),
        _arg("--notification-url", metavar="URL", help="URL to which the service posts when messages arrive"),
        _switch("--wait", help="wait until the inbox is active"),
        _arg("--timeout", type=float, default=600.0, help="maximum wait in seconds (default: %(default)s)"),
        *SERVICE_OPTIONS,
        examples=["inbox ensure invoices --app-key tasks --action-key new_invoice --wait"],
    ),
    _action(
        "pause",
        "Pause an inbox: its messages stay, new events are dropped",
        "inboxes.pause",
        INBOX,
        *SERVICE_OPTIONS,
        examples=["inbox pause orders"],
    ),
    _action(
        "resume",
        "Resume a paused inbox",
        "inboxes.resume",
        INBOX,
        *SERVICE_OPTIONS,
        examples=["inbox resume orders"],
    ),
    _action(
        "delete",
        "Delete an inbox with all the messages in it",
        "inboxes.delete",
        INBOX,
        _switch("-y", "--yes", help="do not ask for confirmation"),
        *SERVICE_OPTIONS,
        examples=["inbox delete invoices --yes"],
    ),
    _action(
        "messages",
        "List the messages of an inbox, without their payloads",
        "inboxes.list_messages",
        INBOX,
        _status("messages", "available", "leased", "acked", "quarantined"),
        *SERVICE_OPTIONS,
        examples=["inbox messages orders", "inbox messages orders --status quarantined"],
    ),
    _action(
        "lease",
        "Lease messages, and print them with their payloads; uses one of about five deliveries of each",
        "inboxes.lease",
        INBOX,
        _number("--limit", "maximum number of messages, 1 to 100", 10),
        _number("--lease-seconds", "length of the lease in seconds, 1 to 3600", 300),
        *SERVICE_OPTIONS,
        examples=["inbox lease orders --limit 1 --lease-seconds 60"],
    ),
    _action(
        "ack",
        "Acknowledge leased messages: remove them for good",
        "inboxes.acknowledge",
        *LEASED_MESSAGES,
        *SERVICE_OPTIONS,
        examples=["inbox ack orders LEASE_ID", "inbox ack orders LEASE_ID MESSAGE_ID"],
    ),
    _action(
        "release",
        "Release leased messages: they can be leased again at once",
        "inboxes.release",
        *LEASED_MESSAGES,
        *SERVICE_OPTIONS,
        examples=["inbox release orders LEASE_ID"],
    ),
    _action(
        "drain",
        "Start one DAG run for each available message, and acknowledge it",
        "inboxes.drain",
        INBOX,
        _arg("--trigger-dag-id", required=True, metavar="DAG", help="the DAG to start for each message"),
        _number("--max-messages", "maximum number of messages, up to 10000 (default: 10000)"),
        _number("--max-unfinished-runs", "maximum number of queued and running runs (default: any number)"),
        _arg("--dead-letter-dag-id", metavar="DAG", help="the DAG to start for dead letters (default: none)"),
        _number(
            "--dead-letter-after", "delivery count from which a rejection makes a dead letter, 1 to 4", 3
        ),
        *SERVICE_OPTIONS,
        examples=["inbox drain orders --trigger-dag-id handle_order"],
    ),
    examples=["inbox list"],
)

COMMANDS = (
    DEAD_LETTERS,
    _action(
        "doctor",
        "Examine connections and the deployment, and report each problem with its fix;"
        " exit code 1: a check failed or was skipped",
        "doctor.doctor",
        _conn_id("examine this Airflow connection too (default: those that deployed DAGs use)"),
        _inbox("examine only this inbox of the connection (default: all)"),
        _switch(
            "--no-airflow",
            help="do not examine triggerers and DAGs: for a machine without access to the metadata database",
        ),
        OUTPUT,
        examples=["doctor", "doctor --conn-id workflow_default --inbox orders"],
    ),
    _action(
        "guess",
        "Guess a workflow from a description",
        "workflows.guess",
        _arg("text", metavar="TEXT", help="description of the workflow"),
        *SERVICE_OPTIONS,
        examples=["guess 'When an order arrives in the shop, add a row to the spreadsheet'"],
    ),
    INBOXES,
    _action(
        "login",
        "Log in a user, for a connection with the grant refresh_token",
        "login.login",
        _arg("--scope", help="scopes to request, separated by spaces (default: the connection's)"),
        CONN_ID,
        examples=["login --conn-id workflow_user"],
    ),
    _action(
        "put",
        "Put messages into an inbox of a running emulator",
        "emulator.put",
        INBOX,
        _arg("payloads", nargs="+", metavar="PAYLOAD", help="payload of a message, as JSON"),
        _switch("--create", help="create the inbox if it does not exist"),
        _arg("--url", metavar="URL", help="URL of the emulator (default: the connection's)"),
        *SERVICE_OPTIONS,
        examples=["put orders '{\"number\": 1}' '{\"number\": 2}' --create"],
    ),
    _action(
        "templates",
        "List workflow templates",
        "workflows.templates",
        _arg("--apps", metavar="A,B", help="only templates that use these apps, separated by commas"),
        _number("--limit", "maximum number of templates, 1 or more (default: all)"),
        *SERVICE_OPTIONS,
        examples=["templates --apps shop --limit 3"],
    ),
    _action(
        "token",
        "Get an access token, and show it masked, with its expiry and its scope",
        "access_token.token",
        _arg("--scope", help="scopes, separated by spaces (default: the connection's)"),
        _switch("--show", help="print only the token, unmasked; keep it out of logs"),
        *SERVICE_OPTIONS,
        examples=["token --output json"],
    ),
)
