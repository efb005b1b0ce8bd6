"""What ``make demo CHAOS=1`` kills, when, and how that is started again.

A process is killed at the worst moment: while messages are leased, by a lease that was made after the kill
before. So a kill hits messages on their way to their runs, and Airflow has recovered from the kill before.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from datetime import datetime

from airflow_provider_workflow.emulator.server import EmulatorServer
from tools.airflow_api import Json
from tools.local_airflow import LocalAirflow

WORKER = "worker"
PLAN = ("triggerer", WORKER, "scheduler", "triggerer", WORKER)
LEASE_SECONDS = 60
"""Length of the leases of the demo's listener: the shortest one that the sensor accepts."""
PAUSE_SECONDS = 8.0
"""Least time between two kills."""
PATIENCE_SECONDS = 30.0
"""After this time without a lease, a process without one is killed."""
NOTICED_SECONDS = 5.0
"""How long after a kill its leases are not yet reported: a task may just be working on them."""
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
        self._inbox, self._listener = inbox, listener
        self._plan = list(plan)
        self._last_seconds, self._last_time = 0.0, 0.0

    @property
    def over(self) -> bool:
        """Whether all kills were made."""
        return not self._plan

    def act(self, seconds: float) -> str | None:
        """Make the next kill, if this is its moment; describe it in a line.

        :param seconds: since the beginning.
        """
        if self.over or seconds < self._last_seconds + PAUSE_SECONDS:
            return None
        summary = self._service.summary(self._inbox)
        leased = self._leased_since_the_last(summary)
        overdue = seconds > self._last_seconds + PAUSE_SECONDS + PATIENCE_SECONDS
        if _has_long_lease(summary) or not (leased or overdue):
            return None
        killed = self._kill(self._plan[0], overdue=overdue)
        if killed is None:
            return None
        self._plan.pop(0)
        self.done += 1
        self._last_seconds, self._last_time = seconds, self._now()
        what, then = killed
        return f"{seconds:.0f} s: killed {what} while {_messages(leased, 'were')} leased; {then}"

    def revive(self) -> list[str]:
        """Start again what ended by itself, as a supervisor would; describe each in a line."""
        ended = [name for name in self._airflow.names if not self._airflow.alive(name)]
        for name in ended:
            self._airflow.restart(name)
        return [f"The {name} ended by itself; started it again" for name in ended]

    def notice(self) -> str:
        """Name the messages that wait for the lease of a killed process to expire; empty without one."""
        now = self._now()
        if now < self._last_time + NOTICED_SECONDS:
            return ""
        left = [
            (_epoch(lease["leased_until"]) - now, len(lease["message_ids"]))
            for lease in self._service.summary(self._inbox)["leases"]
            if _epoch(lease["leased_until"]) - LEASE_SECONDS < self._last_time
        ]
        if not left:
            return ""
        last = max(0.0, max(seconds for seconds, _ in left))
        number = sum(count for _, count in left)
        messages = _messages(number, "are")
        if len(left) > 1:
            lease = "the last of their leases expires"
        else:
            lease = f"{'its' if number == 1 else 'their'} lease expires"
        return f"{messages} still leased from before a kill; {lease} in {last:.0f} s"

    def _now(self) -> float:
        """The time of the service, which no kill changes."""
        return self._service.store.clock.now()

    def _leased_since_the_last(self, summary: Json) -> int:
        return sum(
            message["status"] == "leased" and message["leased_at"] > self._last_time
            for message in summary["messages"]
        )

    def _kill(self, part: str, *, overdue: bool) -> tuple[str, str] | None:
        """Kill; say what, and what follows."""
        if part == WORKER:
            task = self._worker_task(overdue=overdue)
            if task is None or not _kill_process(task["pid"]):
                return None
            return f"the worker of a task of {task['dag_id']} (pid {task['pid']})", "Airflow retries the task"
        pid = self._airflow.leader(part)
        self._airflow.kill(part, tree=True)
        self._airflow.restart(part)
        return f"the {part} (pid {pid})", "started it again"

    def _worker_task(self, *, overdue: bool) -> Json | None:
        """A running task, of the listener if possible, whose process is a descendant of the scheduler."""
        running = self._airflow.api.running_tasks()
        descendants = set(self._airflow.pids("scheduler")) - {self._airflow.leader("scheduler")}
        found = [task for task in running if task["pid"] in descendants]
        found.sort(key=lambda task: task["dag_id"] != self._listener)
        if not found or (found[0]["dag_id"] != self._listener and not overdue):
            return None
        return found[0]


def _has_long_lease(summary: Json) -> bool:
    """Whether a message is leased for longer than the demo waits: with the lease of an hour by which a try
    of a task examines its target after a failure. On Airflow before 3.3 that is each retry."""
    leased = {message["lease_id"]: message["leased_at"] for message in summary["messages"]}
    return any(
        _epoch(lease["leased_until"]) - leased[lease["lease_id"]] > LEASE_SECONDS + 1
        for lease in summary["leases"]
    )


def _kill_process(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _messages(number: int, verb: str) -> str:
    if number == 1:
        return f"1 message {'was' if verb == 'were' else 'is'}"
    return f"{number} messages {verb}"


def _epoch(moment: str) -> float:
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()
