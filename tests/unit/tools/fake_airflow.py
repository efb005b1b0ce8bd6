"""A fake of ``LocalAirflow`` for the demo, whose listener works on messages whenever runs are listed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from typing import Any

from airflow_provider_workflow.dispatch.runs import run_id_of
from airflow_provider_workflow.emulator.rules.records import iso
from airflow_provider_workflow.emulator.server import EmulatorServer

Json = dict[str, Any]


class FakeAPI:
    """Airflow's API, and the listener.

    Whenever runs are listed, the listener leases, starts runs and acknowledges. If it is slow, it does the
    last two when runs are listed the next time, unless it was killed in between.

    :param service: where the listener leases and acknowledges.
    """

    def __init__(self, service: EmulatorServer, inbox: str) -> None:
        self.service, self.inbox = service, inbox
        self.runs: list[Json] = []
        self.tasks: list[Json] = []
        self.state = "success"
        self.forgets_run_of: int | None = None
        self.starts_twice: int | None = None
        self.is_slow = False
        self.before_listing: Callable[[], None] = lambda: None
        self._held: Json | None = None

    def dag_runs(self, dag_id: str) -> list[Json]:
        self.before_listing()
        if self._held:
            self._work_on(self._held)
        self._held = self.lease()
        if not self.is_slow:
            self._work_on(self._held)
            self._held = None
        return self.runs

    def killed(self) -> None:
        """The listener was killed, and its lease stays."""
        self._held = None

    def running_tasks(self) -> list[Json]:
        return self.tasks

    def wait_until(self, predicate: Callable[[], Any], timeout: float, what: str) -> Any:
        answer = predicate()
        assert answer, what
        return answer

    def lease(self) -> Json:
        return self.service.store.messages.lease(self._id, lease_seconds=60, lease_limit=100)

    def _work_on(self, lease: Json) -> None:
        for message in lease["results"]:
            self._start(message)
        if lease["lease_id"]:
            self.service.store.messages.acknowledge(self._id, lease["lease_id"])

    def _start(self, message: Json) -> None:
        order = message["payload"]["order"]
        if order == self.forgets_run_of:
            return
        run_id = run_id_of(message["id"], self._id)
        moment = iso(self.service.store.clock.now())
        run = {
            "dag_run_id": run_id,
            "queued_at": moment,
            "end_date": moment,
            "state": self.state,
            "conf": {"message": message},
        }
        self.runs.append(run)
        if order == self.starts_twice:
            self.runs.append({**run, "dag_run_id": "another"})

    @property
    def _id(self) -> str:
        return self.service.open_inbox(self.inbox)


class FakeAirflow:
    """``LocalAirflow`` without processes: it counts up their ids.

    :param api: its API.
    """

    names = ("scheduler", "triggerer", "dag-processor", "api-server")
    url = "http://localhost:1"

    def __init__(self, api: FakeAPI) -> None:
        self.api = api
        self.done: list[tuple[str, str]] = []
        self.below_scheduler: list[int] = []
        self.ended: set[str] = set()
        self._ids: Iterator[int] = count(1_000_001)
        self._leaders = {name: next(self._ids) for name in self.names}

    def leader(self, name: str) -> int:
        return self._leaders[name]

    def pids(self, name: str) -> list[int]:
        return [self._leaders[name], *(self.below_scheduler if name == "scheduler" else ())]

    def alive(self, name: str) -> bool:
        return name not in self.ended

    def kill(self, name: str, *, tree: bool) -> None:
        assert tree
        self.done.append(("kill", name))
        self.api.killed()

    def restart(self, name: str) -> None:
        with suppress(KeyError):
            self.ended.remove(name)
        self._leaders[name] = next(self._ids)
        self.done.append(("start", name))

    def tails(self) -> str:
        return "the ends of the logs"
