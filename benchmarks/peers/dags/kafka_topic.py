"""Messages of a Kafka topic in asset events."""

import json

from airflow.providers.apache.kafka.triggers.shared_stream import KafkaSharedStreamTrigger
from airflow.sdk import Asset, AssetWatcher, dag, task

trigger = KafkaSharedStreamTrigger(topics=["kafka_topic"])
topic = Asset("kafka_topic", watchers=[AssetWatcher(name="kafka_topic", trigger=trigger)])


@dag(schedule=[topic])
def kafka_topic():
    @task
    def handle(triggering_asset_events=None):
        return [json.loads(event.extra["payload"])["number"] for event in triggering_asset_events[topic]]

    handle()


kafka_topic()
