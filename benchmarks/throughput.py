"""
How many DAG runs dispatchers start per second, beside the bare supervisor call in a loop and Airflow's REST
API, in turns and in the same Airflow. And how many messages a task processes in batches, without a DAG run
for each.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from airflow_provider_workflow.emulator.server import EmulatorServer
from benchmarks.results import Row, compared, in_turns
from benchmarks.stage import put, stage
from tools.local_airflow import LocalAirflow

FILE = "dags/throughput.py"
DAG_IDS = ("dispatch", "checked", "batches", "bare")
INBOX = "throughput"
WAIT_SECONDS = 600
BARE = "bare supervisor call"
AT_LEAST = {BARE: 0.95}
"""By what is compared: the ratio that is aimed at."""


def run(*, quick: bool) -> list[Row]:
    """Measure; ``quick`` with few messages."""
    rounds, messages, by_rest = (1, 20, 5) if quick else (3, 1000, 200)
    with stage(FILE, DAG_IDS, [INBOX]) as (service, airflow):
        tasks = Tasks(service, airflow)
        beside = {
            BARE: lambda: tasks.run("bare", count=messages).rate,
            f"REST API, {by_rest} runs": lambda: tasks.by_rest(by_rest),
            "with a business key and a schema": lambda: tasks.dispatch(messages, dag_id="checked").rate,
            "2 tasks side by side": lambda: tasks.dispatch(messages, tasks=2).rate,
            "4 tasks side by side": lambda: tasks.dispatch(messages, tasks=4).rate,
            "messages in batches of 100": lambda: tasks.dispatch(messages, dag_id="batches").rate,
        }
        samples = in_turns({"ours": lambda: tasks.dispatch(messages).rate, **beside}, rounds)
    title = f"DAG runs started by one task, {messages} messages"
    return [
        compared(title, "1/s", samples["ours"], name, samples[name], at_least=AT_LEAST.get(name))
        for name in beside
    ]


@dataclass(frozen=True)
class Work:
    """
    What tasks did, side by side.

    :param count: DAG runs started, or messages processed.
    :param seconds: between the first task's begin and the last one's end.
    :param used: seconds of CPU, of all tasks.
    :param grown: most megabytes that a task had more than before its work.
    """

    count: int
    seconds: float
    used: float
    grown: float

    @property
    def rate(self) -> float:
        """Per second."""
        return self.count / self.seconds


@dataclass(frozen=True)
class Tasks:
    """Tasks that start DAG runs, each kind measured by itself."""

    service: EmulatorServer
    airflow: LocalAirflow

    def dispatch(self, messages: int, *, tasks: int = 1, text: str = "", dag_id: str = "dispatch") -> Work:
        """
        By our operator, or in batches, from an inbox that holds so many messages.

        :param tasks: that work side by side.
        :param text: in the payload of each message.
        :param dag_id: of the DAG with the operator.
        """
        put(self.service, INBOX, messages, text)
        return self.run(dag_id, tasks)

    def run(self, dag_id: str, tasks: int = 1, **conf: Any) -> Work:
        """Run a DAG, several times at once, and wait for its ends."""
        run_ids = [self.airflow.api.trigger_dag(dag_id, conf) for _ in range(tasks)]
        for run_id in run_ids:
            self.airflow.api.wait_for_run(dag_id, run_id, WAIT_SECONDS)
        results = [self.airflow.api.xcom(dag_id, run_id, "start_runs") for run_id in run_ids]
        return Work(
            count=sum(result["count"] for result in results),
            seconds=max(result["ended_at"] for result in results)
            - min(result["began_at"] for result in results),
            used=sum(result["used"] for result in results),
            grown=max(result["grown"] for result in results),
        )

    def by_rest(self, count: int) -> float:
        """By calls of the REST API, one after the other on one connection; runs per second."""
        began_at = time.monotonic()
        for number in range(count):
            self.airflow.api.trigger_dag("rest_target", conf={"message": {"payload": {"number": number}}})
        return count / (time.monotonic() - began_at)
