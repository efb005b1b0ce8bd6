"""``inbox drain``: one DAG run for each message that is there, as a dispatch operator does it."""

from __future__ import annotations

from argparse import Namespace

from airflow_provider_workflow.cli import output
from airflow_provider_workflow.cli.connecting import hook_of
from airflow_provider_workflow.cli.running import Exit
from airflow_provider_workflow.client.errors import InboxPausedError


def drain(args: Namespace) -> int:
    """
    Start the runs, and acknowledge.

    :raises TargetError: no runs of the DAG can be started; what was leased for it is released.
    :raises InboxNotActiveError: the inbox is paused, and there was nothing in it.
    """
    from airflow_provider_workflow.cli.database_runs import DatabaseRuns
    from airflow_provider_workflow.dispatch import Dispatcher
    from airflow_provider_workflow.leasing import InboxNotActiveError
    from airflow_provider_workflow.options import check_limits
    from airflow_provider_workflow.routing import Routes

    limits = check_limits(100, 300, args.max_messages, args.max_unfinished_runs)
    routes = Routes(args.trigger_dag_id)
    dispatcher = Dispatcher(hook_of(args), args.inbox, routes, DatabaseRuns(), limits)
    dispatcher.check_targets()
    tally = dispatcher.tally
    try:
        output.note(f"Inbox {args.inbox}: {dispatcher.drain().value}.")
    except InboxPausedError as paused:
        if tally.handled == 0:
            raise InboxNotActiveError(args.inbox, paused.paused_reason) from None
        output.note(f"Inbox {args.inbox} is paused ({paused.paused_reason}).")
    finally:
        # What was done is done, whatever came then.
        rows = [{"messages": name, **counted} for name, counted in tally.result.items()]  # type: ignore[dict-item]
        output.show(args.output, tally.result, rows)
    if tally.refused:
        output.note(tally.refused_text())
        return Exit.FAULT
    return Exit.OK
