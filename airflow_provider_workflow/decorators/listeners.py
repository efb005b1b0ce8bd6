"""The DAG of a listener, for ``inbox_dag``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from airflow_provider_workflow.decorators.arguments import Arguments

START = datetime(2025, 1, 1, tzinfo=UTC)
"""Any time in the past: without one, Airflow starts no run of a ``@continuous`` DAG."""
NEVER = timedelta(days=365)
"""How long a sensor waits: an inbox without messages is no failure."""


def make_listener(kind: str, dag_id: str, inbox: str, target_id: str, given: Arguments) -> DAG:
    """
    Make the DAG of a listener.

    :param kind: ``notice`` or ``sensor``.
    :param target_id: the DAG whose runs it starts.
    """
    from airflow.sdk import DAG

    does = f'Starts one run of the DAG "{target_id}" for each message of the inbox "{inbox}".'
    default_args = given.target.get("default_args") or {}
    of_dag = {
        "start_date": default_args.get("start_date") or START,
        **given.listener,
        "max_active_runs": 1,
        "catchup": False,
        "description": does,
        "doc_md": does,
    }
    task = {"task_id": "start_runs", **given.task}
    if kind == "sensor":
        from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

        with DAG(dag_id, schedule="@continuous", **of_dag) as listener:
            options = {"deferrable": True, "timeout": NEVER, **task}
            WorkflowInboxSensor(inbox=inbox, trigger_dag_id=target_id, **options)
        return listener
    from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator

    with DAG(dag_id, schedule=_notices(dag_id, inbox, given.trigger), **of_dag) as listener:
        WorkflowInboxDispatchOperator(inbox=inbox, trigger_dag_id=target_id, **task)
    return listener


def _notices(name: str, inbox: str, given: Mapping[str, Any]) -> Any:
    """The schedule of a DAG that starts while the inbox has messages: an asset with a watcher."""
    from airflow.sdk import AssetWatcher

    from airflow_provider_workflow.assets import create_asset, schedule_of
    from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger

    watcher = AssetWatcher(name=name, trigger=WorkflowInboxNoticeTrigger(inbox, **given))
    of_connection = {key: given[key] for key in ("workflow_conn_id",) if key in given}
    return schedule_of(create_asset(inbox=inbox, watchers=[watcher], **of_connection))
