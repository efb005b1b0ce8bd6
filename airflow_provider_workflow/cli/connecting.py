"""From ``--conn-id`` to a hook."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from airflow_provider_workflow.cli import output
from airflow_provider_workflow.cli.quiet import hush_warnings

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook


def hook_of(args: Namespace) -> WorkflowHook:
    """
    The hook of the connection that was asked for, found and checked.

    :raises ConfigurationError: there is no such connection, or its fields are missing or wrong.
    """
    from airflow.providers.common.compat.sdk import AirflowNotFoundException

    from airflow_provider_workflow.client.errors import ConfigurationError
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

    hush_warnings()
    hook = WorkflowHook(args.conn_id)
    try:
        settings = hook.settings
    except AirflowNotFoundException:
        variable = f"AIRFLOW_CONN_{args.conn_id.upper()}"
        cure = f"add it in Airflow's page, set {variable}, or name another by --conn-id"
        raise ConfigurationError([f"Airflow has no connection {args.conn_id!r} ({cure})"]) from None
    # Airflow takes the field for a secret, as its name holds "token".
    output.no_secret(settings.token_url)
    return hook
