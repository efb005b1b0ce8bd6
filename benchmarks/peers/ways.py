"""The queues that are compared: how a message is sent to each, and how Airflow watches and finds it."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

from airflow_provider_workflow.emulator.server import EmulatorServer
from benchmarks.peers.idle import Watcher, queue_names
from benchmarks.peers.lines import lines_of_code
from benchmarks.peers.polls import POLLS_VARIABLE, polls_file, polls_in
from benchmarks.polling import POLL_SECONDS
from benchmarks.scale.deployment import RABBITMQ_VARIABLE
from benchmarks.sqs import queues
from tests.crash.topology import REDIS_VARIABLE

DAGS = Path(__file__).parent / "dags"
TOPIC = "kafka_topic"
OURS = "airflow-provider-workflow"
AMAZON, KAFKA, REDIS = (f"apache-airflow-providers-{name}" for name in ("amazon", "apache-kafka", "redis"))
RABBITMQ = "apache-airflow-provider-rabbitmq"
PREFIX = "workflow_peers_"
"""Of the names of queues and channels on servers that others may use too."""
REBALANCE_MS = 6000
"""After which Kafka gives the partitions of a consumer that was killed to another one; 45,000 by default."""

Send = Callable[[int], None]

QUEUES_AT = "WORKFLOW_BENCH_QUEUES"
"""Environment variable of DAG files: the address of the SQS queues, before their names."""
NOTICE = Watcher(
    "from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger as Trigger",
    "Trigger(name)",
)
EVENT = Watcher(
    "from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger as Trigger",
    "Trigger(name, lease_seconds=60)",
)
SQS = Watcher(
    "import os\nfrom airflow.providers.amazon.aws.triggers.sqs import SqsSensorTrigger as Trigger",
    f'Trigger(sqs_queue=os.environ["{QUEUES_AT}"] + name, wait_time_seconds=20, waiter_delay=0)',
)
STREAM = Watcher(
    "from benchmarks.peers.counted import KafkaSharedStreamTrigger as Trigger",
    "Trigger(topics=[name])",
)
RABBIT = Watcher(
    "from airflow.provider.rabbitmq.triggers.rabbitmq_trigger import RabbitMQTrigger as Trigger",
    f'Trigger(queue_name="{PREFIX}" + name)',
)
CHANNEL = Watcher(
    "from benchmarks.peers.counted import MessageQueueTrigger as Trigger",
    'Trigger(scheme="redis+pubsub", channels=[name], poll_interval=0.1)',
)
POLL_OFTEN = f"poll_interval={POLL_SECONDS}, max_poll_interval={POLL_SECONDS}, wake_on_events=False"
POLLED_NOTICE = replace(NOTICE, trigger=f"Trigger(name, {POLL_OFTEN})")
POLLED_EVENT = replace(EVENT, trigger=f"Trigger(name, lease_seconds=60, {POLL_OFTEN})")
POLLED_SQS = replace(
    SQS,
    trigger=f'Trigger(sqs_queue=os.environ["{QUEUES_AT}"] + name, wait_time_seconds=0, '
    f"waiter_delay={POLL_SECONDS:.0f})",
)


@dataclass(frozen=True)
class Way:
    """
    One way from a message to a task that gets it.

    :param name: of its DAG, and of the file of that.
    :param shown: class and kind.
    :param package: the distribution that it is in.
    :param send: sends a message with a number.
    :param watcher: makes its trigger with the same settings as the DAG file.
    :param poller: makes one that polls at a pace that is known, and whose polls are counted; None if there
        are no polls, as the server sends messages by itself.
    :param alone: whether its trigger occupies the one thread that a triggerer has for blocking calls. Others
        would wait for it, so it has an Airflow of its own.
    """

    name: str
    shown: str
    package: str
    send: Send
    watcher: Watcher
    poller: Watcher | None = None
    alone: bool = False

    def __str__(self) -> str:
        return (
            f"{self.shown} ({self.package.removeprefix('apache-airflow-providers-')} {version(self.package)})"
        )

    @property
    def lines(self) -> int:
        """Lines of code of its DAG file."""
        return lines_of_code((DAGS / f"{self.name}.py").read_text())


@dataclass(frozen=True)
class Queues:
    """
    Every way, and what an Airflow needs for them.

    :param connections: as JSON by connection id.
    :param env: environment variables for the DAG files.
    """

    ways: list[Way]
    connections: Mapping[str, str]
    env: Mapping[str, str]


@contextmanager
def every_queue() -> Iterator[Queues]:
    """All queues, new and empty."""
    with (
        EmulatorServer() as service,
        queues() as sqs,
        rabbitmq_queue() as (queue, publish),
        kafka_topic() as (kafka, produce),
        polls_file() as polls,
    ):
        channel = f"{PREFIX}{secrets.token_hex(4)}"
        names = ("sqs_sensor", "sqs_watcher", *queue_names())
        addresses = {name: sqs.open_queue(name) for name in names}
        for name in ("ours", "ours_event", *queue_names()):
            service.open_inbox(name)

        def put(inbox: str) -> Send:
            return lambda number: service.put(inbox, {"number": number})

        def send(name: str) -> Send:
            return lambda number: sqs.send(addresses[name], {"number": number})

        def listings() -> int:
            return service.count("list_messages") + service.count("lease")

        def counted() -> int:
            return polls_in(polls)

        notice, event = replace(POLLED_NOTICE, polls=listings), replace(POLLED_EVENT, polls=listings)
        received = replace(POLLED_SQS, polls=sqs.polls)
        stream, channels = replace(STREAM, polls=counted), replace(CHANNEL, polls=counted)
        publish_to_channel = redis_channel(channel)
        ways = [
            Way("ours", "@inbox_dag", OURS, put("ours"), NOTICE, notice),
            Way("ours_event", "WorkflowInboxEventTrigger", OURS, put("ours_event"), EVENT, event),
            Way("sqs_sensor", "SqsSensor", AMAZON, send("sqs_sensor"), SQS, received),
            Way("sqs_watcher", "MessageQueueTrigger, sqs", AMAZON, send("sqs_watcher"), SQS, received),
            Way(TOPIC, "KafkaSharedStreamTrigger", KAFKA, produce, stream, stream, alone=True),
            Way("rabbitmq_queue", "RabbitMQTrigger", RABBITMQ, publish, RABBIT),
            Way(
                "redis_channel",
                "MessageQueueTrigger, redis+pubsub",
                REDIS,
                publish_to_channel,
                channels,
                channels,
                alone=True,
            ),
        ]
        connections = {
            "workflow_default": service.connection_json(),
            "aws_default": sqs.connection,
            "kafka_default": kafka,
            "rabbitmq_default": json.dumps(
                {"conn_type": "rabbitmq", "extra": {"connection_uri": os.environ[RABBITMQ_VARIABLE]}}
            ),
            "redis_default": redis_connection(os.environ[REDIS_VARIABLE]),
        }
        env = {
            "PEER_SQS_SENSOR": addresses["sqs_sensor"],
            "PEER_SQS_WATCHER": addresses["sqs_watcher"],
            "PEER_RABBITMQ_QUEUE": queue,
            "PEER_REDIS_CHANNEL": channel,
            QUEUES_AT: addresses["sqs_sensor"].removesuffix("sqs_sensor"),
            POLLS_VARIABLE: str(polls),
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
    for name in (TOPIC, *queue_names()):
        producer.list_topics(name, timeout=30)  # which creates it
    extra = {
        **servers,
        "group.id": "peers",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": REBALANCE_MS,
    }

    def produce(number: int) -> None:
        producer.produce(TOPIC, json.dumps({"number": number}))
        if producer.flush(30):
            raise RuntimeError("the Kafka cluster did not take a message within 30 s")

    yield json.dumps({"conn_type": "kafka", "extra": extra}), produce


@contextmanager
def rabbitmq_queue() -> Iterator[tuple[str, Send]]:
    """A durable queue, deleted in the end with those that are watched: its name, and what publishes to it."""
    import pika

    name = f"{PREFIX}{secrets.token_hex(4)}"
    watched = [f"{PREFIX}{each}" for each in queue_names()]
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
        with channel() as opened:
            opened.basic_publish("", name, json.dumps({"number": number}), persistent)

    with channel() as opened:
        opened.queue_declare(name, durable=True)
    try:
        yield name, publish
    finally:
        with channel() as opened:
            for each in (name, *watched):
                opened.queue_delete(each)


def redis_channel(name: str) -> Send:
    """What publishes to a channel."""
    import redis

    client = redis.Redis.from_url(os.environ[REDIS_VARIABLE])

    def publish(number: int) -> None:
        client.publish(name, json.dumps({"number": number}))

    return publish


def redis_connection(address: str) -> str:
    """The Airflow connection to a Redis, as JSON."""
    parts = urlsplit(address)
    extra = {"db": int(parts.path.strip("/") or 0)}
    return json.dumps({"conn_type": "redis", "host": parts.hostname, "port": parts.port, "extra": extra})
