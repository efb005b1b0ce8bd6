"""``inbox drain``: one DAG run for each message that is there, as a dispatch operator does it."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from airflow_provider_workflow.cli import output
from airflow_provider_workflow.cli.counting import outcomes, progress
from airflow_provider_workflow.cli.running import Exit, hook_of

if TYPE_CHECKING:
    from airflow_provider_workflow.dispatch.results import Counted, Tally

SHOWN_IDS = 3


def drain(args: Namespace) -> int:
    """
    Start the runs, and acknowledge.

    :raises TargetError: no runs of the DAG can be started; what was leased is released, but for the
        message that showed it.
    :raises InboxNotActiveError: the inbox is paused, and there was nothing in it.
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
    tally = dispatcher.tally
    try:
        with progress(dispatcher):
            _, ended = drain_inbox(dispatcher)
        output.note(f"{ended}.")
    finally:
        # What was done is done, whatever came then.
        output.show(args.output, tally.result, _rows(tally))
    if tally.refused:
        output.note(tally.refused_text())
        return Exit.FAULT
    return Exit.OK


def _rows(tally: Tally) -> list[output.Row]:
    """For people: numbers, and the first ids whole; scripts get 100 of each."""
    return [
        {"messages": name, "count": counted["count"], "first ids": _first(counted)}
        for name, counted in outcomes(tally)
    ]


def _first(counted: Counted) -> str:
    shown = counted["ids"][:SHOWN_IDS]
    return ", ".join([*shown, "..."] if counted["count"] > len(shown) else shown)
