"""Asset events pass the errors among the messages of the inbox "alerts" to a DAG (Airflow 3.3 or later)."""

import logging
from datetime import datetime

from airflow.sdk import DAG, AssetWatcher, task

from airflow_provider_workflow.assets import create_asset
from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger, messages_of

log = logging.getLogger(__name__)

trigger = WorkflowInboxEventTrigger(inbox="alerts", match="payload.level == 'error'", unmatched="acknowledge")
alerts = create_asset(inbox="alerts", watchers=[AssetWatcher(name="alerts", trigger=trigger)])

with DAG("on_alerts", schedule=[alerts], start_date=datetime(2025, 1, 1)):

    @task
    def handle(triggering_asset_events=None):
        for event in triggering_asset_events[alerts]:
            for message in messages_of(event):
                again = " (again)" if message["redelivered"] else ""
                log.info("Alert %s%s: %s", message["id"], again, message["payload"])

    handle()
