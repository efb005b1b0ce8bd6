"""The commands of the group ``dead-letters`` as data; see ``definition.py``."""

from __future__ import annotations

from airflow_provider_workflow.cli.command import OUTPUT, SINCE, Command, Group, option

_HERE = "airflow_provider_workflow.cli"

_DEAD_LETTER_DAGS = option(
    "--dag-id",
    action="append",
    metavar="DAG",
    help="only dead letters of this dead-letter DAG; may be repeated (default: all)",
)
_CONN_ID = option(
    "--conn-id", metavar="ID", help="only dead letters of this Airflow connection (default: all)"
)
_INBOX = option(
    "--inbox", metavar="INBOX", help="only dead letters of this inbox: its id, or with --conn-id its name"
)
_WHICH = (_DEAD_LETTER_DAGS, _CONN_ID, _INBOX)
_REASON = option(
    "--reason",
    choices=("rejected", "expression", "unmatched", "target", "failed"),
    help="only dead letters with this reason: %(choices)s",
)

DEAD_LETTER_GROUP = Group(
    "dead-letters",
    "Show dead letters, and start the runs of their messages",
    (
        Command(
            "list",
            "List dead letters, the newest first, without their payloads",
            f"{_HERE}.dead_letters.list_dead_letters",
            (
                *_WHICH,
                SINCE,
                _REASON,
                option(
                    "--limit",
                    type=int,
                    default=100,
                    metavar="N",
                    help="maximum number of dead letters, 1 or more (default: %(default)s)",
                ),
                OUTPUT,
            ),
            description="List dead letters, the newest first, without their payloads: the state of their"
            " own run, and of the run that their message has by now, if they were replayed. Reads Airflow's"
            " metadata database.",
        ),
        Command(
            "show",
            "Show a dead letter with its message, payload included",
            f"{_HERE}.dead_letters.show",
            (
                option("id", metavar="ID", help="id of the message, or of the dead letter's run"),
                *_WHICH,
                OUTPUT,
            ),
            description="Show a dead letter with its message. The payload is printed on purpose: keep the"
            " output out of logs. In JSON, message_json is the exact message as the service sent it.",
        ),
        Command(
            "replay",
            "Start the runs that the messages of dead letters were meant to start",
            f"{_HERE}.replay.replay",
            (
                option("ids", nargs="*", metavar="ID", help="ids of messages, or of the dead letters' runs"),
                option("--all", action="store_true", help="replay all dead letters"),
                *_WHICH,
                SINCE,
                _REASON,
                option(
                    "--trigger-dag-id",
                    metavar="DAG",
                    help="the DAG to start (default: the target that rejected the message; a message that"
                    " no route took has none)",
                ),
                option(
                    "--rate",
                    metavar="N/s",
                    help="start at most so many runs: 5/s, 100/m, 1000/h (default: no limit)",
                ),
                option("--dry-run", action="store_true", help="start nothing; count what would be started"),
                OUTPUT,
            ),
            description="Start the runs that the messages of dead letters were meant to start, the oldest"
            " first, with their original run ids. Repeating it is harmless: a message whose run exists is"
            " counted as existing. A dead letter whose run is rejected stays as it is. Needs Airflow's"
            " metadata database, as airflow dags trigger does.",
        ),
    ),
)
