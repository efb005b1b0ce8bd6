"""Messages of an SQS queue in asset events."""

import json
import os

from airflow.providers.common.messaging.triggers.msg_queue import MessageQueueTrigger
from airflow.sdk import Asset, AssetWatcher, dag, task

# At its fastest: the longest wait of a poll, and no pause between two.
trigger = MessageQueueTrigger(
    scheme="sqs", sqs_queue=os.environ["PEER_SQS_WATCHER"], wait_time_seconds=20, waiter_delay=0
)
queue = Asset("sqs_watcher", watchers=[AssetWatcher(name="sqs_watcher", trigger=trigger)])


@dag(schedule=[queue])
def sqs_watcher():
    @task
    def handle(triggering_asset_events=None):
        batches = [event.extra["payload"]["message_batch"] for event in triggering_asset_events[queue]]
        return [json.loads(message["Body"])["number"] for batch in batches for message in batch]

    handle()


sqs_watcher()
