"""Messages of a Redis channel in asset events."""

import json
import os

from airflow.providers.common.messaging.triggers.msg_queue import MessageQueueTrigger
from airflow.sdk import Asset, AssetWatcher, dag, task

trigger = MessageQueueTrigger(
    scheme="redis+pubsub", channels=[os.environ["PEER_REDIS_CHANNEL"]], poll_interval=0.1
)
channel = Asset("redis_channel", watchers=[AssetWatcher(name="redis_channel", trigger=trigger)])


@dag(schedule=[channel])
def redis_channel():
    @task
    def handle(triggering_asset_events=None):
        events = triggering_asset_events[channel]
        return [json.loads(event.extra["payload"]["data"])["number"] for event in events]

    handle()


redis_channel()
