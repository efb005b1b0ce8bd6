"""
How many DAG runs dispatchers start per second, beside the bare supervisor call in a loop, Airflow's REST
API, and a mapped ``TriggerDagRunOperator``, in turns and in the same Airflow. And how many messages a task
processes in batches, without a DAG run for each.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from airflow_provider_workflow.emulator.server import EmulatorServer
from benchmarks.results import Row, Target, alone, compared
from benchmarks.stage import epoch, stage
from tools.local_airflow import LocalAirflow

WAIT_SECONDS = 600
SLOW_ANSWER_SECONDS = 0.2


@dataclass(frozen=True)
class Size:
    """
    How much is measured.

    :param rounds: in each of which everything has its turn.
    :param messages: that wait in the inbox, and runs that the bare loop starts.
    :param many: messages of the one long round.
    :param mapped: runs by mapped operators, which take half a second each.
    :param by_rest: runs by REST.
    :param dispatchers: that work side by side.
    """

    rounds: int = 3
    messages: int = 1000
    many: int = 10_000
    mapped: int = 100
    by_rest: int = 200
    dispatchers: tuple[int, ...] = (1, 2, 4)


QUICK = Size(rounds=1, messages=20, many=40, mapped=5, by_rest=5, dispatchers=(1, 2))


def run(quick: bool) -> list[Row]:
    """Measure; ``quick`` with few messages."""
    size = QUICK if quick else Size()
    dag_ids = ["dispatch", "batches", "bare", "mapped"]
    with stage("throughput", dag_ids, ["throughput"]) as (service, airflow):
        measured = Throughput(service, airflow)
        rows = [*_in_turns(measured, size), *_side_by_side(measured, size), *_many(measured, size)]
        return [*rows, _in_batches(measured, size), _with_a_slow_service(measured, size)]


def _in_turns(measured: Throughput, size: Size) -> list[Row]:
    samples: dict[str, list[float]] = {name: [] for name in ("ours", "bare", "rest", "mapped")}
    for _ in range(size.rounds):
        samples["ours"].append(measured.dispatched(size.messages).rate)
        samples["bare"].append(measured.bare(size.messages).rate)
        samples["rest"].append(measured.by_rest(size.by_rest))
        samples["mapped"].append(measured.mapped(size.mapped))
    what = f"DAG runs started by one task, {size.messages} messages"
    ours = samples["ours"]
    return [
        compared(what, "1/s", ours, "bare supervisor call", samples["bare"], Target("ratio", ">=", 0.95)),
        compared(what, "1/s", ours, f"REST API, {size.by_rest} runs", samples["rest"]),
        compared(
            what,
            "1/s",
            ours,
            f"mapped TriggerDagRunOperator, {size.mapped}",
            samples["mapped"],
            Target("ratio", ">=", 30),
        ),
    ]


def _side_by_side(measured: Throughput, size: Size) -> list[Row]:
    alone_rate = measured.dispatched(size.messages).rate
    return [
        compared(
            f"DAG runs started by {count} tasks side by side, {size.messages} messages",
            "1/s",
            [measured.dispatched(size.messages, dispatchers=count).rate],
            "one task",
            [alone_rate],
        )
        for count in size.dispatchers[1:]
    ]


def _many(measured: Throughput, size: Size) -> list[Row]:
    few, many = measured.dispatched(size.messages), measured.dispatched(size.many)
    bare = measured.bare(size.many)
    return [
        compared(
            f"DAG runs started by one task, {size.many} messages",
            "1/s",
            [many.rate],
            "bare supervisor call",
            [bare.rate],
            Target("ratio", ">=", 0.95),
        ),
        alone(f"memory that one task grows by, {size.messages} messages", "MB", [few.grown]),
        alone(f"memory that one task grows by, {size.many} messages", "MB", [many.grown]),
    ]


def _in_batches(measured: Throughput, size: Size) -> Row:
    """Beside the start of a run for each message; running these runs takes far longer than starting them."""
    samples: dict[str, list[float]] = {"batches": [], "dispatch": []}
    for _ in range(size.rounds):
        for dag_id, rates in samples.items():
            rates.append(measured.dispatched(size.messages, dag_id=dag_id).rate)
    return compared(
        f"messages processed by one task in batches of 100, {size.messages} messages",
        "1/s",
        samples["batches"],
        "DAG runs started by one task, one for each message",
        samples["dispatch"],
    )


def _with_a_slow_service(measured: Throughput, size: Size) -> Row:
    """What it costs that a task works on one lease at a time, once each answer takes 200 ms."""
    at_once = [measured.dispatched(size.messages).rate for _ in range(size.rounds)]
    measured.service.fault("slow", times=None, seconds=SLOW_ANSWER_SECONDS)
    slowly = [measured.dispatched(size.messages).rate for _ in range(size.rounds)]
    return compared(
        f"DAG runs started by one task, {size.messages} messages, each answer of the service takes 200 ms",
        "1/s",
        slowly,
        "a service that answers at once",
        at_once,
    )


@dataclass(frozen=True)
class Work:
    """
    What tasks did, side by side.

    :param count: DAG runs started.
    :param seconds: between the first task's begin and the last one's end.
    :param used: seconds of CPU, of all tasks; 0 where they do not tell.
    :param grown: megabytes of the task that grew most.
    """

    count: int
    seconds: float
    used: float
    grown: float

    @property
    def rate(self) -> float:
        """DAG runs per second."""
        return self.count / self.seconds

    @classmethod
    def of(cls, told: list[dict[str, Any]]) -> Work:
        return cls(
            count=sum(each["count"] for each in told),
            seconds=max(each["ended_at"] for each in told) - min(each["began_at"] for each in told),
            used=sum(each.get("used", 0.0) for each in told),
            grown=max(each.get("grown", 0.0) for each in told),
        )


@dataclass(frozen=True)
class Throughput:
    """The ways of starting runs, each measured by itself."""

    service: EmulatorServer
    airflow: LocalAirflow

    def dispatched(
        self, messages: int, dispatchers: int = 1, text: str = "", dag_id: str = "dispatch"
    ) -> Work:
        """
        By our operator, or in batches, from an inbox that holds so many messages.

        :param text: in the payload of each.
        :param dag_id: of the DAG with the operator.
        """
        for begin in range(0, messages, 1000):
            some = range(begin, min(begin + 1000, messages))
            self.service.put("throughput", *({"number": number, "text": text} for number in some))
        return self._done(dag_id, dispatchers)

    def bare(self, count: int) -> Work:
        """By the supervisor call in a loop."""
        return self._done("bare", conf={"count": count})

    def by_rest(self, count: int) -> float:
        """By calls of the REST API, one after the other on one connection; runs per second."""
        began_at = time.monotonic()
        for number in range(count):
            self.airflow.api.trigger_dag("rest_target", conf={"message": {"payload": {"number": number}}})
        return count / (time.monotonic() - began_at)

    def mapped(self, count: int) -> float:
        """By mapped operators; runs per second between the first and the last that is queued."""
        known = {run["dag_run_id"] for run in self.airflow.api.dag_runs("mapped_target")}
        self._wait("mapped", [self.airflow.api.trigger_dag("mapped", conf={"count": count})])
        moments = sorted(
            epoch(run["queued_at"])
            for run in self.airflow.api.dag_runs("mapped_target")
            if run["dag_run_id"] not in known
        )
        return (len(moments) - 1) / (moments[-1] - moments[0])

    def _done(self, dag_id: str, times: int = 1, conf: dict[str, Any] | None = None) -> Work:
        run_ids = [self.airflow.api.trigger_dag(dag_id, conf=conf or {}) for _ in range(times)]
        self._wait(dag_id, run_ids)
        return Work.of([self.airflow.api.xcom(dag_id, run_id, "start_runs") for run_id in run_ids])

    def _wait(self, dag_id: str, run_ids: list[str]) -> None:
        for run_id in run_ids:
            self.airflow.api.wait_for_run(dag_id, run_id, WAIT_SECONDS)
