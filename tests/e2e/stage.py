"""What the end-to-end tests act on: an inbox of the emulator, and runs of a real Airflow."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from airflow_provider_workflow.dispatch.runs import run_id_of
from airflow_provider_workflow.emulator.server import EmulatorServer
from tools.airflow_api import AirflowAPIError, Json
from tools.local_airflow import LocalAirflow

T = TypeVar("T")
PATIENCE_SECONDS = 180.0
"""How long a test waits for anything: far longer than it takes, as nothing here measures speed."""


@dataclass(frozen=True)
class Inbox:
    """An inbox that belongs to one test, so that tests share the emulator but nothing in it."""

    emulator: EmulatorServer
    name: str
    id: str

    @classmethod
    def open(cls, emulator: EmulatorServer, name: str) -> Inbox:
        return cls(emulator, name, emulator.open_inbox(name))

    def put(self, *payloads: Any, **options: Any) -> list[str]:
        return self.emulator.put(self.id, *payloads, **options)

    def run_id_of(self, message_id: str) -> str:
        """The id of the run that a message of this inbox starts."""
        return run_id_of(message_id, self.id)

    @property
    def counts(self) -> dict[str, int]:
        """Messages by status: available, leased, acked, quarantined."""
        counts: dict[str, int] = self.emulator.summary(self.id)["counts"]
        return counts

    @property
    def messages(self) -> dict[str, Json]:
        """Every message by its id; of one that was delivered twice, the last delivery."""
        return {message["id"]: message for message in self.emulator.summary(self.id)["messages"]}

    @property
    def lease_counts(self) -> list[int]:
        """How often messages were leased, each number once."""
        return sorted({message["lease_count"] for message in self.messages.values()})

    @property
    def leases_made(self) -> int:
        """Leases that handed out something."""
        return int(self.emulator.summary(self.id)["counters"].get("leases", 0))

    def all_acknowledged(self) -> bool:
        counts = self.counts
        return counts["acked"] == sum(counts.values())

    def requests(self, operation: str) -> list[Any]:
        """The requests of an operation (``lease``, ``ack`` ...) on this inbox, oldest first."""
        return [
            request
            for request in self.emulator.requests
            if request.operation == operation and self.id in request.path
        ]

    def fault(self, kind: str, operation: str, **fields: Any) -> Any:
        """Let requests of an operation on this inbox go wrong."""
        return self.emulator.fault(kind, operation=operation, path=self.id, **fields)

    def held_requests(self) -> list[int]:
        """The ids of the held requests of this inbox."""
        return [
            request["id"] for request in self.emulator.emulator.holds.listing() if self.id in request["path"]
        ]

    def release_held(self, *, drop: bool = False) -> None:
        """Let the held requests of this inbox go on, and hold no more."""
        for fault in list(self.emulator.emulator.faults.rules):
            if (fault.kind, fault.path) == ("hold", self.id):
                self.emulator.emulator.faults.clear(fault)
        for request_id in self.held_requests():
            self.emulator.release(request_id, drop=drop)

    def expire_leases(self) -> None:
        self.emulator.store.messages.expire(self.id)

    def force(self, status: str, reason: str | None = None) -> None:
        self.emulator.store.inboxes.force(self.id, status, reason)


@dataclass(frozen=True)
class Run:
    """A run of a DAG whose one task is under test."""

    airflow: LocalAirflow
    dag_id: str
    run_id: str

    @property
    def task(self) -> Json:
        """The task instance under test as the API shows it."""
        tasks = self.airflow.api.task_instances(self.dag_id, self.run_id)
        return next((task for task in tasks if task["task_id"] == "work"), tasks[0])

    def reaches(self, *states: str) -> Run:
        """
        Wait until the task is in one of these states.

        :raises AssertionError: it has ended in another one.
        """

        def is_there() -> bool:
            state = self.task["state"]
            assert state in states or state not in ("failed", "skipped", "success"), f"{state}\n{self.log()}"
            return state in states

        self.airflow.api.wait_until(is_there, PATIENCE_SECONDS, f"{self.dag_id} {' or '.join(states)}")
        return self

    def succeeds(self) -> Any:
        """Wait until the run succeeded; return what its task returned."""
        self.airflow.api.wait_for_run(self.dag_id, self.run_id, PATIENCE_SECONDS)
        return self.result()

    def fails(self) -> str:
        """Wait until the run failed; return the log of the last try."""
        self.airflow.api.wait_for_run(self.dag_id, self.run_id, PATIENCE_SECONDS, states=("failed",))
        return self.log()

    def result(self, task_id: str | None = None) -> Any:
        """What the task under test, or another one, returned; None where that is nothing."""
        try:
            return self.airflow.api.xcom(self.dag_id, self.run_id, task_id or self.task["task_id"])
        except AirflowAPIError as error:
            if error.status == 404:
                return None
            raise

    def log(self) -> str:
        """The log of the last try."""
        task = self.task
        return self.airflow.api.task_log(self.dag_id, self.run_id, task["task_id"], task["try_number"])

    def kill_task(self) -> None:
        """``kill -9`` the process in which the task runs."""
        os.kill(self.task["pid"], signal.SIGKILL)


@dataclass(frozen=True)
class Stage:
    """A real Airflow beside the emulator."""

    airflow: LocalAirflow
    emulator: EmulatorServer

    def start(self, dag_id: str, inbox: Inbox | str, target: str = "target", **conf: Any) -> Run:
        """Start a DAG on an inbox, messages of which are to start ``target``."""
        name = inbox if isinstance(inbox, str) else inbox.name
        self.airflow.wait_for_dags([dag_id])
        run_id = self.airflow.api.trigger_dag(dag_id, {"inbox": name, "target": target, **conf})
        return Run(self.airflow, dag_id, run_id)

    def runs_of(self, inbox: Inbox, dag_id: str = "target") -> list[Json]:
        """The runs of a DAG that messages of an inbox started, oldest first."""
        runs = self.airflow.api.dag_runs(dag_id, conf_contains=inbox.id)
        return [run for run in runs if (run["conf"] or {}).get("inbox_id") == inbox.id]

    def check_one_run_each(self, inbox: Inbox, ids: list[str], dag_id: str = "target") -> None:
        """Check that each of these messages, and no other of its inbox, started exactly one run."""
        run_counts = Counter(message_id_of(run["conf"]) for run in self.runs_of(inbox, dag_id))
        assert run_counts == Counter(ids)

    def wait_until_succeeded(self, inbox: Inbox, ids: list[str], dag_id: str = "target") -> None:
        """Wait until every message has its one run, and all runs succeeded."""
        run_ids = {inbox.run_id_of(message_id) for message_id in ids}
        self.until(
            lambda: (
                run_ids <= {r["dag_run_id"] for r in self.runs_of(inbox, dag_id) if r["state"] == "success"}
            ),
            f"{len(ids)} successful runs of {dag_id}",
        )
        self.check_one_run_each(inbox, ids, dag_id)

    def hold_a_lease(self, inbox: Inbox, *payloads: Any) -> list[str]:
        """Put messages, and hold the answer of the lease that takes them."""
        inbox.fault("hold", "lease", when="after", times=None)
        ids = inbox.put(*payloads)

        def holds_messages() -> bool:
            if inbox.counts["leased"]:
                return bool(inbox.held_requests())
            for request_id in inbox.held_requests():
                self.emulator.release(request_id)
            return False

        self.until(holds_messages, "the lease to be held")
        return ids

    def until(self, condition: Callable[[], T], description: str) -> T:
        return self.airflow.api.wait_until(condition, PATIENCE_SECONDS, description)


def message_id_of(conf: Json) -> str:
    """The id of the message that started a run of a target, or of the dead-letter DAG."""
    return str(conf["message_id"] if "message_id" in conf else conf["message"]["id"])
