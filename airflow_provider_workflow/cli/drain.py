"""``inbox drain``: starts one DAG run for each available message, as the dispatch operator does."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from airflow_provider_workflow.cli import output
from airflow_provider_workflow.cli.counting import outcomes, progress
from airflow_provider_workflow.cli.running import Exit, hook_of

if TYPE_CHECKING:
    from airflow_provider_workflow.dispatch.results import Counted, Counts

SHOWN_IDS = 3


def drain(args: Namespace) -> int:
    """
    Start the runs, and acknowledge the messages.

    :raises TargetError: no runs of the DAG can be started; the leased messages are released, except the
        one that was rejected.
    :raises InboxNotActiveError: the inbox is paused and had no messages.
    """
    from airflow_provider_workflow.cli.database import DatabaseRuns
    from airflow_provider_workflow.dispatch.dispatcher import Dispatcher
    from airflow_provider_workflow.dispatch.routing import Routes
    from airflow_provider_workflow.dispatch.targets import TargetCheck
    from airflow_provider_workflow.operators.inbox import drain_inbox
    from airflow_provider_workflow.options import check_limits

    limits = check_limits(100, 300, args.max_messages, args.max_unfinished_runs)
    routes = Routes(args.trigger_dag_id)
    targets = TargetCheck(DatabaseRuns(), routes.dag_ids)
    dispatcher = Dispatcher(hook_of(args), args.inbox, routes, targets, limits)
    dispatcher.check_targets()
    counts = dispatcher.counts
    try:
        with progress(dispatcher):
            _, ended = drain_inbox(dispatcher)
        output.note(f"{ended}.")
    finally:
        # Also after an error: the runs were started.
        output.show(args.output, counts.result, _rows(counts))
    if counts.refused:
        output.note(counts.rejected_text())
        return Exit.FAULT
    return Exit.OK


def _rows(counts: Counts) -> list[output.Row]:
    """Numbers and the first ids, for a table; JSON and YAML have up to 100 ids of each."""
    return [
        {"messages": name, "count": counted["count"], "first ids": _first(counted)}
        for name, counted in outcomes(counts)
    ]


def _first(counted: Counted) -> str:
    shown = counted["ids"][:SHOWN_IDS]
    return ", ".join([*shown, "..."] if counted["count"] > len(shown) else shown)
