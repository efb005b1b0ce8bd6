"""What ``make demo CHAOS=1`` kills, when, and how that is started again.

A process is killed at the worst moment: while messages are leased, by a lease that was made after the kill
before. So a kill hits messages on their way to their runs, and Airflow has recovered from the kill before.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from airflow_provider_workflow.emulator.server import EmulatorServer
from tools.airflow_api import Json
from tools.demo_messages import epoch
from tools.local_airflow import LocalAirflow

WORKER = "worker"
PLAN = ("triggerer", WORKER, "scheduler", "triggerer", WORKER)
LEASE_SECONDS = 60
"""Length of the leases of the demo's listener: the shortest one that the sensor accepts."""
PAUSE_SECONDS = 8.0
"""Least time between two kills."""
PATIENCE_SECONDS = 30.0
"""After this time without a lease, a process without one is killed."""
RECOVERY = {
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "1",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "5",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "2",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "15",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT": "30",
    "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT_CHECK_INTERVAL": "5",
    # For the tasks of the target, which have no retries of their own.
    "AIRFLOW__CORE__DEFAULT_TASK_RETRIES": "5",
    "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "2",
}
"""Airflow notices a killed process in seconds; by default in 30 s (triggerer) to 5 minutes (a task)."""


class Kills:
    """The kills of a demo, in their order.

    :param airflow: whose processes are killed.
    :param service: the emulator.
    :param inbox: whose messages are leased.
    :param listener: DAG whose task starts the runs.
    :param plan: components of Airflow, and ``worker`` for the process of a task.
    """

    def __init__(
        self,
        airflow: LocalAirflow,
        service: EmulatorServer,
        inbox: str,
        listener: str,
        plan: Sequence[str],
    ) -> None:
        self.done = 0
        self._airflow, self._service = airflow, service
        self._inbox, self._listener, self._plan = inbox, listener, plan
        self._last_seconds, self._last_time = 0.0, 0.0

    @property
    def over(self) -> bool:
        """Whether all kills were made."""
        return self.done == len(self._plan)

    def act(self, seconds: float) -> str | None:
        """Make the next kill, if this is its moment; describe it in a line.

        :param seconds: since the beginning.
        """
        since_last = seconds - self._last_seconds
        if self.over or since_last < PAUSE_SECONDS:
            return None
        summary = self._service.summary(self._inbox)
        leased_count = sum(
            message["status"] == "leased" and message["leased_at"] > self._last_time
            for message in summary["messages"]
        )
        is_overdue = since_last > PAUSE_SECONDS + PATIENCE_SECONDS
        if _has_long_lease(summary) or not (leased_count or is_overdue):
            return None
        kill = self._kill(self._plan[self.done], is_overdue=is_overdue)
        if kill is None:
            return None
        self.done += 1
        # The time of the service, which no kill changes.
        self._last_seconds, self._last_time = seconds, self._service.store.clock.now()
        messages = "1 message was" if leased_count == 1 else f"{leased_count} messages were"
        return f"{seconds:.0f} s: killed {kill[0]} while {messages} leased; {kill[1]}"

    def revive(self) -> list[str]:
        """Start again what ended by itself, as a supervisor would; describe each in a line."""
        ended_names = [name for name in self._airflow.names if not self._airflow.alive(name)]
        for name in ended_names:
            self._airflow.restart(name)
        return [f"The {name} ended by itself; started it again" for name in ended_names]

    def _kill(self, part: str, *, is_overdue: bool) -> tuple[str, str] | None:
        """Kill; say what, and what follows."""
        if part == WORKER:
            return self._kill_worker(is_overdue=is_overdue)
        pid = self._airflow.leader(part)
        self._airflow.kill(part, tree=True)
        self._airflow.restart(part)
        return f"the {part} (pid {pid})", "started it again"

    def _kill_worker(self, *, is_overdue: bool) -> tuple[str, str] | None:
        """Kill the process of a task, of the listener if possible, that descends from the scheduler."""
        descendants = set(self._airflow.pids("scheduler")) - {self._airflow.leader("scheduler")}
        tasks = [task for task in self._airflow.api.running_tasks() if task["pid"] in descendants]
        tasks.sort(key=lambda task: task["dag_id"] != self._listener)
        if not tasks or (tasks[0]["dag_id"] != self._listener and not is_overdue):
            return None
        pid = tasks[0]["pid"]
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return None
        return f"the worker of a task of {tasks[0]['dag_id']} (pid {pid})", "Airflow retries the task"


def _has_long_lease(summary: Json) -> bool:
    """Whether a message is leased for longer than the demo waits: with the lease of an hour by which a try
    of a task examines its target after a failure. On Airflow before 3.3 that is each retry."""
    leased_at = {message["lease_id"]: message["leased_at"] for message in summary["messages"]}
    return any(
        epoch(lease["leased_until"]) - leased_at[lease["lease_id"]] > LEASE_SECONDS + 1
        for lease in summary["leases"]
    )
