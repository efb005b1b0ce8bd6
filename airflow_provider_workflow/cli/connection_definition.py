"""The commands ``login`` and ``doctor``, as data (see ``definition.py``)."""

from __future__ import annotations

from airflow_provider_workflow.cli.parts import COMMON, CONN_ID, Command, option

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
    "Examine a connection, and say what is wrong and what cures it",
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
