"""Messages of a RabbitMQ queue in asset events."""

import json
import os

from airflow.provider.rabbitmq.triggers.rabbitmq_trigger import RabbitMQTrigger
from airflow.sdk import Asset, AssetWatcher, dag, task

trigger = RabbitMQTrigger(queue_name=os.environ["PEER_RABBITMQ_QUEUE"])
queue = Asset("rabbitmq_queue", watchers=[AssetWatcher(name="rabbitmq_queue", trigger=trigger)])


@dag(schedule=[queue])
def rabbitmq_queue():
    @task
    def handle(triggering_asset_events=None):
        events = triggering_asset_events[queue]
        return [json.loads(event.extra["payload"]["body"])["number"] for event in events]

    handle()


rabbitmq_queue()
