"""The queues that are compared: how a message is sent to each, and how Airflow watches and finds it."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

from airflow_provider_workflow.emulator.server import EmulatorServer
from benchmarks.servers import RABBITMQ_VARIABLE
from benchmarks.sqs import queues
from benchmarks.watchers import (
    NOTICE,
    OFTEN,
    POLL_SECONDS,
    POLLED_QUEUE,
    POLLING,
    QUEUE,
    QUEUE_VARIABLE,
    QUEUES,
    Trigger,
    inbox_names,
)
from tests.crash.topology import REDIS_VARIABLE

DAGS = Path(__file__).parent / "dags"
WATCHED = 10
"""Queues that are watched at once when idle triggers are measured, each by a trigger of its own."""
OURS = "airflow-provider-workflow"
AMAZON, KAFKA, REDIS = (f"apache-airflow-providers-{name}" for name in ("amazon", "apache-kafka", "redis"))
RABBITMQ = "apache-airflow-provider-rabbitmq"
PREFIX = "workflow_peers_"
"""Of the names of queues and channels on servers that others may use too."""
REBALANCE_MS = 6000
"""After which Kafka gives the partitions of a consumer that was killed to another one; 45,000 by default."""
CHANNEL_SECONDS = 0.1
"""Between two polls of a Redis channel."""

Send = Callable[[int], None]

EVENT = "from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger as Trigger"
STREAM = (
    "from airflow.providers.apache.kafka.triggers.shared_stream import KafkaSharedStreamTrigger as Trigger"
)
RABBIT = "from airflow.provider.rabbitmq.triggers.rabbitmq_trigger import RabbitMQTrigger as Trigger"
CHANNEL = "from airflow.providers.common.messaging.triggers.msg_queue import MessageQueueTrigger as Trigger"
ON_CHANNEL = f'scheme="redis+pubsub", channels=[name], poll_interval={CHANNEL_SECONDS}'


@dataclass(frozen=True)
class Way:
    """
    One way from a message to a task that gets it.

    :param name: of its DAG, and of the file of that.
    :param shown: class and kind.
    :param package: the distribution that it is in.
    :param send: sends a message with a number.
    :param trigger: makes its trigger with the same settings as the DAG file.
    :param poller: makes one that polls at a known pace; None if the server sends messages by itself.
    :param polls: how often the pollers of all :data:`WATCHED` queues poll, per second.
    :param alone: whether its trigger occupies the one thread that a triggerer has for blocking calls. Others
        would wait for it, so it has an Airflow of its own.
    """

    name: str
    shown: str
    package: str
    send: Send
    trigger: Trigger
    poller: Trigger | None = None
    polls: float = WATCHED / POLL_SECONDS
    alone: bool = False

    def __str__(self) -> str:
        package = self.package.removeprefix("apache-airflow-providers-")
        return f"{self.shown} ({package} {version(self.package)})"

    @property
    def source(self) -> str:
        """Its DAG file."""
        return (DAGS / f"{self.name}.py").read_text()

    @property
    def lines(self) -> int:
        """Lines of code of its DAG file, without blank ones, comments and the first, which is a docstring."""
        lines = [line.strip() for line in self.source.splitlines()[1:]]
        return sum(bool(line) and not line.startswith("#") for line in lines)


@dataclass(frozen=True)
class Queues:
    """
    All ways, and what an Airflow needs for them.

    :param connections: as JSON by connection id.
    :param env: environment variables for the DAG files.
    """

    ways: list[Way]
    connections: Mapping[str, str]
    env: Mapping[str, str]


@contextmanager
def all_queues() -> Iterator[Queues]:
    """All queues, new and empty."""
    with (
        EmulatorServer() as service,
        queues() as sqs,
        rabbitmq_queue() as (queue, publish),
        kafka_topic() as (kafka, produce),
    ):
        channel = f"{PREFIX}{secrets.token_hex(4)}"
        watched = inbox_names(WATCHED)
        urls = {name: sqs.open_queue(name) for name in ("sqs_sensor", "sqs_watcher", *watched)}
        for name in ("ours", "ours_event", *watched):
            service.open_inbox(name)

        def put(inbox: str) -> Send:
            return lambda number: service.put(inbox, {"number": number})

        def send(name: str) -> Send:
            return lambda number: sqs.send(urls[name], {"number": number})

        notice, event = Trigger(NOTICE, "Trigger(name)"), Trigger(EVENT, "Trigger(name, lease_seconds=60)")
        polled_event = Trigger(EVENT, f"Trigger(name, lease_seconds=60, {OFTEN})")
        trigger = Trigger(QUEUES, f"Trigger({QUEUE}, wait_time_seconds=20, waiter_delay=0)")
        stream = Trigger(STREAM, "Trigger(topics=[name])")
        rabbit = Trigger(RABBIT, f'Trigger(queue_name="{PREFIX}" + name)')
        on_channel = Trigger(CHANNEL, f"Trigger({ON_CHANNEL})")
        by_sensor, by_watcher = send("sqs_sensor"), send("sqs_watcher")
        per_channel = WATCHED / CHANNEL_SECONDS
        to_channel = redis_channel(channel)
        ways = [
            Way("ours", "@inbox_dag", OURS, put("ours"), notice, POLLING),
            Way("ours_event", "WorkflowInboxEventTrigger", OURS, put("ours_event"), event, polled_event),
            Way("sqs_sensor", "SqsSensor", AMAZON, by_sensor, trigger, POLLED_QUEUE),
            Way("sqs_watcher", "MessageQueueTrigger, sqs", AMAZON, by_watcher, trigger, POLLED_QUEUE),
            # One consumer polls all topics, and waits for a second each time.
            Way("kafka_topic", "KafkaSharedStreamTrigger", KAFKA, produce, stream, stream, 1, alone=True),
            Way("rabbitmq_queue", "RabbitMQTrigger", RABBITMQ, publish, rabbit),
            Way(
                "redis_channel",
                "MessageQueueTrigger, redis+pubsub",
                REDIS,
                to_channel,
                on_channel,
                on_channel,
                per_channel,
                alone=True,
            ),
        ]
        rabbitmq = {"conn_type": "rabbitmq", "extra": {"connection_uri": os.environ[RABBITMQ_VARIABLE]}}
        connections = {
            "workflow_default": service.connection_json(),
            "aws_default": sqs.connection,
            "kafka_default": kafka,
            "rabbitmq_default": json.dumps(rabbitmq),
            "redis_default": redis_connection(os.environ[REDIS_VARIABLE]),
        }
        env = {
            "PEER_SQS_SENSOR": urls["sqs_sensor"],
            "PEER_SQS_WATCHER": urls["sqs_watcher"],
            "PEER_RABBITMQ_QUEUE": queue,
            "PEER_REDIS_CHANNEL": channel,
            QUEUE_VARIABLE: urls["sqs_sensor"].removesuffix("sqs_sensor"),
        }
        yield Queues(ways, connections, env)


@contextmanager
def kafka_topic() -> Iterator[tuple[str, Send]]:
    """A topic of the cluster that librdkafka has for tests: the connection, and what produces to it."""
    from confluent_kafka import Producer

    cluster = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = cluster.list_topics(timeout=30).brokers.values()
    servers = {"bootstrap.servers": f"{broker.host}:{broker.port}"}
    producer = Producer({**servers, "log_level": 0})
    for name in ("kafka_topic", *inbox_names(WATCHED)):
        producer.list_topics(name, timeout=30)  # which creates it
    extra = {
        **servers,
        "group.id": "peers",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": REBALANCE_MS,
    }

    def produce(number: int) -> None:
        producer.produce("kafka_topic", json.dumps({"number": number}))
        if producer.flush(30):
            raise RuntimeError("the Kafka cluster did not take a message within 30 s")

    yield json.dumps({"conn_type": "kafka", "extra": extra}), produce


@contextmanager
def rabbitmq_queue() -> Iterator[tuple[str, Send]]:
    """A durable queue, deleted in the end with those that are watched: its name, and what publishes to it."""
    import pika

    name = f"{PREFIX}{secrets.token_hex(4)}"
    parameters = pika.URLParameters(os.environ[RABBITMQ_VARIABLE])
    persistent = pika.BasicProperties(delivery_mode=2)

    @contextmanager
    def channel() -> Iterator[pika.adapters.blocking_connection.BlockingChannel]:
        # One for each message, as nothing would answer heartbeats in between.
        connection = pika.BlockingConnection(parameters)
        try:
            yield connection.channel()
        finally:
            connection.close()

    def publish(number: int) -> None:
        with channel() as open_channel:
            open_channel.basic_publish("", name, json.dumps({"number": number}), persistent)

    with channel() as open_channel:
        open_channel.queue_declare(name, durable=True)
    try:
        yield name, publish
    finally:
        with channel() as open_channel:
            for queue in (name, *(f"{PREFIX}{watched}" for watched in inbox_names(WATCHED))):
                open_channel.queue_delete(queue)


def redis_channel(name: str) -> Send:
    """What publishes to a channel."""
    import redis

    client = redis.Redis.from_url(os.environ[REDIS_VARIABLE])
    return lambda number: client.publish(name, json.dumps({"number": number}))


def redis_connection(address: str) -> str:
    """The Airflow connection to a Redis, as JSON."""
    parts = urlsplit(address)
    extra = {"db": int(parts.path.strip("/") or 0)}
    return json.dumps({"conn_type": "redis", "host": parts.hostname, "port": parts.port, "extra": extra})
