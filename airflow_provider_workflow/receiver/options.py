"""
What the receiver's command line takes, as data: both ``python -m airflow_provider_workflow.receiver`` and
the command ``receiver`` of the provider's command line are built from it.

Imports nothing, as Airflow reads it whenever somebody types ``airflow``.
"""

from __future__ import annotations

from typing import Any

HELP = "Answer notification_url: notifications of the service start runs of a dispatch DAG"
DESCRIPTION = (
    "Answers the notification_url of inboxes: a notification starts a run of a dispatch DAG through Airflow's"
    " REST API, at most one of them waiting for each inbox. Secrets come from files or from the environment:"
    " WORKFLOW_RECEIVER_SECRET (what addresses are made from), WORKFLOW_RECEIVER_AIRFLOW_PASSWORD,"
    " WORKFLOW_RECEIVER_AIRFLOW_TOKEN."
)
SECRET = "WORKFLOW_RECEIVER_SECRET"  # noqa: S105 its name
PASSWORD = "WORKFLOW_RECEIVER_AIRFLOW_PASSWORD"  # noqa: S105 its name
TOKEN = "WORKFLOW_RECEIVER_AIRFLOW_TOKEN"  # noqa: S105 its name

OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "--route",
        {
            "action": "append",
            "required": True,
            "metavar": "INBOX=DAG_ID",
            "help": "an inbox (name or id) and the dispatch DAG that its notifications start; repeatable",
        },
    ),
    ("--airflow-url", {"metavar": "URL", "help": "address of Airflow's API server"}),
    ("--airflow-username", {"metavar": "NAME", "help": "user who may read and create runs of these DAGs"}),
    (
        "--airflow-password-file",
        {"metavar": "FILE", "help": f"holds the user's password (or the environment: {PASSWORD})"},
    ),
    (
        "--airflow-token-file",
        {
            "metavar": "FILE",
            "help": "holds a token for Airflow's API, instead of name and password; read again when Airflow"
            f" refuses it (or the environment: {TOKEN})",
        },
    ),
    (
        "--airflow-ca-file",
        {"metavar": "FILE", "help": "CA certificates to trust for Airflow (default: the usual ones)"},
    ),
    (
        "--secret-file",
        {
            "metavar": "FILE",
            "help": "holds the secret that addresses are made from; made at the first start"
            f" (or the environment: {SECRET})",
        },
    ),
    (
        "--show-urls",
        {
            "metavar": "URL",
            "help": "print the notification_url of each inbox below this public address, and end",
        },
    ),
    (
        "--host",
        {"default": "127.0.0.1", "metavar": "NAME", "help": "address to listen on (default: %(default)s)"},
    ),
    (
        "--port",
        {
            "type": int,
            "default": 8766,
            "metavar": "NUMBER",
            "help": "0 picks a free port (default: %(default)s)",
        },
    ),
)
