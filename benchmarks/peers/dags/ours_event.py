"""Messages of an inbox in asset events."""

from airflow.sdk import AssetWatcher, dag, task

from airflow_provider_workflow.assets import create_asset, messages_of
from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger

trigger = WorkflowInboxEventTrigger("ours_event", lease_seconds=60)
inbox = create_asset(inbox="ours_event", watchers=[AssetWatcher(name="ours_event", trigger=trigger)])


@dag(schedule=[inbox])
def ours_event():
    @task
    def handle(triggering_asset_events=None):
        events = triggering_asset_events[inbox]
        return [message["payload"]["number"] for event in events for message in messages_of(event)]

    handle()


ours_event()
