"""DAG files that watch many inboxes or queues, and what the triggerer takes that runs their triggers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.meter import Meter, Window, cpu_of, resident, sockets
from benchmarks.stage import running_airflow
from tools.local_airflow import LocalAirflow

PER_FILE = 100
"""Inboxes of one file, and of its DAG."""
POLL_SECONDS = 5.0
"""Between two polls of those that poll often."""
IDLE_SECONDS = 60.0
"""Between two polls of an idle inbox, at default settings."""
TRIGGERS, POLLS = "process that runs triggers", "polls"

ASSETS = """
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, AssetAny, AssetWatcher
{imported}


def watched(name):
    return Asset(name, watchers=[AssetWatcher(name=name, trigger={trigger})])


with DAG("consumer_{first}", schedule=AssetAny(*[watched(f"inbox_{{n}}") for n in range({first}, {end})])):
    EmptyOperator(task_id="nothing")
"""
"""One DAG that all inboxes of the file start."""
DECORATED = """
from airflow.providers.standard.operators.empty import EmptyOperator

from airflow_provider_workflow.decorators import inbox_dag

for number in range({first}, {end}):

    @inbox_dag(inbox=f"inbox_{{number}}", dag_id=f"handle_{{number}}")
    def handle(message):
        EmptyOperator(task_id="nothing")
"""
"""Two DAGs for each inbox, as users write them."""


@dataclass(frozen=True)
class Trigger:
    """
    How a DAG file makes a trigger.

    :param imported: the lines that import its class.
    :param made: an expression, from ``name``.
    """

    imported: str
    made: str


NOTICE = "from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger as Trigger"
LISTENING = Trigger(NOTICE, f"Trigger(name, poll_interval={IDLE_SECONDS})")
"""With an event stream; the polls beneath it are at once as far apart as those of an idle inbox."""
OFTEN = f"poll_interval={POLL_SECONDS}, max_poll_interval={POLL_SECONDS}, wake_on_events=False"
POLLING = Trigger(NOTICE, f"Trigger(name, {OFTEN})")
SLEEPING = Trigger("from benchmarks.sleeping import SleepingTrigger as Trigger", "Trigger(name)")
QUEUES = "import os\nfrom airflow.providers.amazon.aws.triggers.sqs import SqsSensorTrigger as Trigger"
QUEUE_VARIABLE = "WORKFLOW_BENCH_QUEUES"
"""Environment variable of DAG files: the URL of the SQS queues, before their names."""
QUEUE = f'sqs_queue=os.environ["{QUEUE_VARIABLE}"] + name'
POLLED_QUEUE = Trigger(QUEUES, f"Trigger({QUEUE}, wait_time_seconds=0, waiter_delay={POLL_SECONDS:.0f})")


def inbox_names(count: int) -> list[str]:
    """What so many triggers watch."""
    return [f"inbox_{number}" for number in range(count)]


def consumer_of(number: int) -> str:
    """The DAG that messages of an inbox start."""
    return f"consumer_{number // PER_FILE * PER_FILE}"


def dag_files(count: int, trigger: Trigger, template: str = ASSETS) -> dict[str, str]:
    """The texts of files that watch so many inboxes, by name."""
    return {
        f"watched_{first}": template.format(
            first=first, end=min(first + PER_FILE, count), imported=trigger.imported, trigger=trigger.made
        )
        for first in range(0, count, PER_FILE)
    }


def spread(samples: int, count: int) -> list[int]:
    """Numbers of inboxes that get a message, far apart; where they are fewer, some get several."""
    return [number * max(1, count // samples) % count for number in range(samples)]


def runner_of(airflow: LocalAirflow, name: str = "triggerer") -> int:
    """The process that runs the triggers, which is forked from its supervisor."""
    return max(airflow.pids(name))


@contextmanager
def watching(
    count: int,
    trigger: Trigger,
    connections: Mapping[str, str],
    env: Mapping[str, str],
    settle_seconds: float,
) -> Iterator[LocalAirflow]:
    """An Airflow in which so many triggers have come to rest, with room for an event stream each."""
    dags = [consumer_of(number) for number in range(0, count, PER_FILE)]
    env = {**env, "AIRFLOW__WORKFLOW__MAX_EVENT_STREAMS": str(max(1, count))}
    with running_airflow(dag_files(count, trigger), connections, dags, env=env) as airflow:
        time.sleep(settle_seconds)
        yield airflow


@dataclass(frozen=True)
class Measurement:
    """
    What a process takes that runs triggers.

    :param window: with :data:`TRIGGERS` and :data:`POLLS`.
    :param megabytes: of memory.
    :param sockets: that are open.
    """

    window: Window
    megabytes: float
    sockets: int

    @property
    def share(self) -> float:
        """Percent of one core."""
        return self.window.share(TRIGGERS)

    def per_1000_polls(self, idle_share: float) -> float:
        """
        Seconds of CPU.

        :param idle_share: percent of one core that the process takes anyway, which is not counted.
        """
        seconds = self.window.used[TRIGGERS] - idle_share / 100 * self.window.seconds
        return seconds / max(1, self.window.used[POLLS]) * 1000


def measure_triggerer(airflow: LocalAirflow, polls: Callable[[], float], seconds: float) -> Measurement:
    """Measure the triggers of an Airflow for so long."""
    runner = runner_of(airflow)
    meter = Meter({TRIGGERS: cpu_of(lambda: [runner]), POLLS: polls})
    time.sleep(seconds)
    return Measurement(meter.window(), resident(runner), sockets(runner))
