"""
Triggers for Kafka and Redis whose clients count their polls, as the servers cannot tell how many there were.

Triggers are serialized with their classes in this module, so that a triggerer imports it.
"""

from __future__ import annotations

from typing import Any

from airflow.providers.apache.kafka.hooks.consume import KafkaConsumerHook
from airflow.providers.apache.kafka.triggers import shared_stream
from airflow.providers.common.messaging.triggers import msg_queue
from airflow.providers.redis.hooks.redis import RedisHook
from airflow.providers.redis.triggers import redis_await_message
from airflow.providers.redis.triggers.redis_await_message import AwaitMessageTrigger

from benchmarks.peers.polls import counting


class KafkaSharedStreamTrigger(shared_stream.KafkaSharedStreamTrigger):
    """The trigger of the Kafka provider, with a consumer that counts its polls."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.{type(self).__name__}", super().serialize()[1]


class MessageQueueTrigger(msg_queue.MessageQueueTrigger):
    """The trigger of a Redis channel, with a subscription that counts its polls."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.{AwaitMessageTrigger.__name__}", super().serialize()[1]


class CountedConsumer:
    """Wraps a Kafka consumer, which is written in C and cannot be changed, and counts its polls."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self.poll = counting(consumer.poll)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)


class CountedConsumerHook(KafkaConsumerHook):
    """Makes consumers that count their polls."""

    def get_consumer(self) -> Any:
        return CountedConsumer(super().get_consumer())


class CountedRedisHook(RedisHook):
    """Makes clients with subscriptions that count their polls."""

    def get_conn(self) -> Any:
        client = super().get_conn()
        subscribe = client.pubsub

        def counted() -> Any:
            subscription = subscribe()
            subscription.get_message = counting(subscription.get_message)
            return subscription

        client.pubsub = counted
        return client


shared_stream.KafkaConsumerHook = CountedConsumerHook
redis_await_message.RedisHook = CountedRedisHook
