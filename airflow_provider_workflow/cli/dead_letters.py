"""``dead-letters list`` and ``dead-letters show``: dead letters in Airflow's metadata database."""

from __future__ import annotations

import json
from argparse import Namespace
from itertools import islice
from typing import Any

from airflow_provider_workflow.cli import output
from airflow_provider_workflow.cli.arguments import moment_of, now
from airflow_provider_workflow.cli.running import Exit, hook_of
from airflow_provider_workflow.database import dag_runs
from airflow_provider_workflow.database.dag_runs import (
    ENTRIES,
    Selection,
    StoredDeadLetter,
    StoredRun,
    with_replays,
)

LONGEST_CAUSE = 80
"""Characters of a cause in a table."""


def result_of(letter: StoredDeadLetter) -> dict[str, Any]:
    """The fields of a dead letter, for JSON and YAML output."""
    return {
        **{name: letter.run.conf[name] for name in ENTRIES},
        "delivery_count": letter.delivery_count,
        "dag_id": letter.run.dag_id,
        "run_id": letter.run.run_id,
        "state": letter.run.state,
        "time": letter.run.run_after.isoformat(),
        "replays": [{"dag_id": run.dag_id, "state": run.state} for run in letter.replays],
    }


def row_of(letter: StoredDeadLetter) -> output.Row:
    """The row of a dead letter in a table."""
    found, cause = result_of(letter), letter.run.conf["cause"] or ""
    return {
        "message id": letter.message_id,
        "age": output.duration((now() - letter.run.run_after).total_seconds()),
        "reason": found["reason"],
        "target": found["target_dag_id"],
        "deliveries": found["delivery_count"],
        "cause": cause if len(cause) <= LONGEST_CAUSE else f"{cause[: LONGEST_CAUSE - 3]}...",
        "state": letter.run.state,
        "replayed": ", ".join(run.state for run in letter.replays) or "no",
    }


def list_dead_letters(args: Namespace) -> int:
    """
    List dead letters.

    :raises TargetError: the database is unreachable.
    """
    if args.limit < 1:
        raise ValueError(f"--limit must be 1 or more, not {args.limit}")
    size = min(args.limit + 1, dag_runs.PAGE)
    pages = dag_runs.pages(selection_of(args), ENTRIES, size=size)
    found = list(islice((each for page in pages for each in with_replays(page)), args.limit + 1))
    shown = found[: args.limit]
    output.show(args.output, [result_of(each) for each in shown], [row_of(each) for each in shown])
    if len(found) > len(shown):
        output.note(f"There are more than {len(shown)} dead letters; --limit shows more.")
    return Exit.OK


def show(args: Namespace) -> int:
    """
    Show a dead letter with its message.

    :raises NoSuchDeadLetterError: there is none with this id.
    """
    (found,) = find(selection_of(args), [args.id])
    text = dag_runs.whole_conf(found.run.key).get("message_json")
    try:
        message = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        message = None  # message_json shows what it is
    if args.output in ("json", "yaml"):
        output.show(args.output, {**result_of(found), "message": message, "message_json": text})
    else:
        output.show(args.output, None, output.fields(result_of(found)))
        output.write("")
        output.show("json", text if message is None else message)
    return Exit.OK


class NoSuchDeadLetterError(Exception):
    """There is no dead letter with an id."""

    exit_code = Exit.NOT_FOUND


def selection_of(args: Namespace) -> Selection:
    """
    The dead letters that the options of a command select.

    :raises ValueError: an option is wrong.
    :raises ConfigurationError: there is no such connection of the type Workflow.
    :raises WorkflowError: the inbox was not found by its name.
    """
    from airflow_provider_workflow.dispatch.dead_letters import RUN_PREFIX

    named = {
        "reason": getattr(args, "reason", None),
        "connection_id": args.conn_id,
        "inbox_id": _inbox_id(args),
    }
    return Selection(
        RUN_PREFIX,
        tuple(args.dag_id or ()),
        since=moment_of("--since", getattr(args, "since", None)),
        conf={name: value for name, value in named.items() if value is not None},
    )


def _inbox_id(args: Namespace) -> str | None:
    """
    The id of the inbox of ``--inbox``, which is looked up by its name if it is not an id.

    :raises ValueError: a name needs a connection.
    """
    from airflow_provider_workflow.client.inboxes import is_id

    inbox: str | None = args.inbox
    # A mistyped connection must not look like one without dead letters.
    hook = None if args.conn_id is None else hook_of(args)
    if inbox is None or is_id(inbox):
        return inbox
    if hook is None:
        raise ValueError(f"--inbox {inbox!r} is not the id of an inbox; with a name give --conn-id too")
    return hook.get_inbox(inbox)["id"]


def find(selection: Selection, ids: list[str]) -> list[StoredDeadLetter]:
    """
    The dead letters with these ids, in this order.

    :param ids: ids of messages or of runs.
    :raises NoSuchDeadLetterError: there is none with one of the ids.
    :raises ValueError: there are several with one of the ids.
    """
    by_id: dict[str, list[StoredRun]] = {each: [] for each in ids}
    for run in dag_runs.named(selection, ENTRIES, by_id):
        for name in {run.run_id, str(run.conf["message_id"])} & by_id.keys():
            by_id[name].append(run)
    if missing := [each for each, runs in by_id.items() if not runs]:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise NoSuchDeadLetterError(
            f"There is no such dead letter among the selected ones: {', '.join(missing[:3])}{more}"
        )
    for each, runs in by_id.items():
        if len(runs) > 1:
            which = ", ".join(f"{run.run_id} of {run.dag_id}" for run in runs[:10])
            raise ValueError(
                f"{len(runs)} dead letters have the id {each!r}; give a run id, or --dag-id: {which}"
            )
    chosen = {run.key: run for runs in by_id.values() for run in runs}
    return list(with_replays(list(chosen.values())))
