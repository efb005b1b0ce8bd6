"""``inbox drain``: starts one DAG run for each available message, as the dispatch operator does."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from airflow_provider_workflow.cli import output
from airflow_provider_workflow.cli.counting import first_ids, progress
from airflow_provider_workflow.cli.running import Exit, hook_of

if TYPE_CHECKING:
    from airflow_provider_workflow.dispatch.results import Counts


def drain(args: Namespace) -> int:
    """
    Start the runs, and acknowledge the messages.

    :raises TargetError: no runs of the DAG can be started; the leased messages are released, except the
        one that was rejected.
    :raises InboxNotActiveError: the inbox is paused and had no messages.
    """
    from airflow_provider_workflow.database.runs import DatabaseRuns
    from airflow_provider_workflow.dispatch.dead_letters import DeadLetterRules
    from airflow_provider_workflow.dispatch.dispatcher import Dispatcher
    from airflow_provider_workflow.dispatch.routing import Routes
    from airflow_provider_workflow.operators.base import check_dead_letters, check_limits
    from airflow_provider_workflow.operators.inbox import drain_inbox

    check_dead_letters(args.dead_letter_dag_id, args.dead_letter_after, "lease", args.trigger_dag_id)
    dead_letters = args.dead_letter_dag_id
    rules = DeadLetterRules(dead_letters, args.dead_letter_after) if dead_letters else None
    limits = check_limits(100, 300, args.max_messages, args.max_unfinished_runs)
    routes = Routes(args.trigger_dag_id)
    runs = DatabaseRuns()
    dispatcher = Dispatcher(hook_of(args), args.inbox, routes, runs, limits, dead_letter_rules=rules)
    counts, ended = dispatcher.counts, ""
    try:
        with progress(dispatcher):
            _, ended = drain_inbox(dispatcher)
        output.note(f"{ended}.")
    finally:
        # Also after an error, if runs were started.
        if ended or counts.handled:
            output.show(args.output, counts.result, _rows(counts))
    if counts.causes:
        output.note(counts.rejected_text())
        return Exit.FAULT
    return Exit.OK


def _rows(counts: Counts) -> list[output.Row]:
    """Numbers and the first ids, for a table; JSON and YAML have up to 100 ids of each."""
    return [
        {"messages": name, "count": counted["count"], "first ids": first_ids(counted)}
        for name, counted in counts.by_outcome().items()
    ]
