"""The commands under ``inbox``, as data."""

from __future__ import annotations

from airflow_provider_workflow.cli.parts import COMMON, INBOX, Command, Group, option

_INBOXES = "airflow_provider_workflow.cli.inboxes"
_MESSAGES = "airflow_provider_workflow.cli.messages"

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
            f"{_MESSAGES}.list_messages",
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
            f"{_MESSAGES}.lease",
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
            f"{_MESSAGES}.acknowledge",
            (INBOX, _LEASE_ID, _MESSAGE_IDS, *COMMON),
        ),
        Command(
            "release",
            "Give leased messages back, to be leased again at once",
            f"{_MESSAGES}.release",
            (INBOX, _LEASE_ID, _MESSAGE_IDS, *COMMON),
        ),
        _DRAIN,
    ),
)
