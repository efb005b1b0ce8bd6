"""Put the messages of the inbox "alerts" into asset events, with the trigger of common.messaging."""

from airflow.providers.common.messaging.triggers.msg_queue import MessageQueueTrigger
from airflow.sdk import AssetWatcher

from airflow_provider_workflow.assets import create_asset

trigger = MessageQueueTrigger(scheme="workflow-inbox", inbox="alerts")
alerts = create_asset(inbox="alerts", watchers=[AssetWatcher(name="alerts", trigger=trigger)])
