"""Asset events pass the messages of the inbox "alerts" to a DAG (Airflow 3.3 or later)."""

import logging

from airflow.sdk import AssetWatcher, dag, task

from airflow_provider_workflow.assets import create_asset, messages_of
from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger

log = logging.getLogger(__name__)

# The triggerer leases messages. It acknowledges them once their event is stored.
trigger = WorkflowInboxEventTrigger(inbox="alerts")
alerts = create_asset(inbox="alerts", watchers=[AssetWatcher(name="alerts", trigger=trigger)])


@dag(schedule=[alerts], tags=["example", "workflow"], doc_md=__doc__)
def on_alerts():
    @task(retries=3)  # the messages are acknowledged already
    def handle(triggering_asset_events=None):
        # One run may have several events, and each event several messages.
        for event in triggering_asset_events[alerts]:
            for message in messages_of(event):
                # It may have been part of an earlier event.
                again = " (again)" if message["message_attributes"]["lease_count"] > 1 else ""
                log.info("Alert %s%s: %s", message["id"], again, message["payload"])

    handle()


on_alerts()
