"""Airflow's own trigger runner with its shared streams, on a clock that is moved by hand."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from airflow_provider_workflow.assets import messages_of
from airflow_provider_workflow.client import async_client
from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger
from tests.unit.fake_clock import FakeClock
from tests.unit.workbench import INBOX, Workbench

PATIENCE_SECONDS = 10.0
"""How long a test waits at most for something that should come at once."""


class Log:
    """The runner's log: says nothing, and holds a trigger up where it has fired, if told to."""

    def __init__(self) -> None:
        self.gate: asyncio.Event | None = None

    async def ainfo(self, text: str, **_: Any) -> None:
        if text == "Trigger fired event" and self.gate is not None:
            await self.gate.wait()

    async def aerror(self, *_: Any, **__: Any) -> None: ...

    adebug = awarning = aerror

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


async def beside(function: Callable[[], Any]) -> None:
    """Wait for something in a thread for which the clock does not wait."""
    with ThreadPoolExecutor(1) as pool:
        await asyncio.wrap_future(pool.submit(function))


class Triggerer:
    """
    A triggerer, and the supervisor that stores its events when a test says so.

    :param bench: the inbox ``orders``.
    :param clock: moves by hand.
    """

    def __init__(self, bench: Workbench, clock: FakeClock) -> None:
        from airflow.jobs.triggerer_job_runner import TriggerRunner

        self.bench = bench
        self.clock = clock
        self.log = Log()
        runner = type("Runner", (TriggerRunner,), {"log": self.log})
        self.runner: Any = runner()
        self.stored: list[tuple[int, Any]] = []
        self._numbers = itertools.count(1)

    @property
    def streams(self) -> Any:
        return self.runner._shared_streams

    def start(self, trigger: Any) -> int:
        number = next(self._numbers)
        trigger.trigger_id = number
        work = self.runner.run_trigger(number, trigger)
        self.runner.triggers[number] = {"name": str(number), "events": 0, "is_watcher": True, "task": None}
        self.runner.triggers[number]["task"] = task = asyncio.create_task(work)
        task.add_done_callback(
            lambda finished_task: finished_task.cancelled() or finished_task.exception()
        )  # seen, as Airflow does
        return number

    async def end(self, number: int) -> None:
        """End a trigger, as Airflow does when its DAG is paused."""
        task = self.runner.triggers[number]["task"]
        task.cancel()
        await asyncio.wait({task})

    @property
    def unstored(self) -> list[Any]:
        return [entry.event.payload for entry in self.runner.events]

    def store(self) -> None:
        """Store all events, and let the streams know, as the supervisor does about once a second."""
        confirmed = []
        while self.runner.events:
            entry = self.runner.events.popleft()
            self.stored.append((entry.trigger_id, entry.event.payload))
            if entry.persist_seq is not None:
                confirmed.append(entry.persist_seq)
        self.streams.confirm_persisted(confirmed)

    def stored_ids(self, number: int | None = None) -> list[str]:
        return [stored_message["id"] for stored_message in self.stored_messages(number)]

    def stored_messages(self, number: int | None = None) -> list[dict[str, Any]]:
        payloads = [payload for trigger, payload in self.stored if number in (None, trigger)]
        return [message for payload in payloads for message in messages_of(payload)]

    async def work(self, seconds: float) -> None:
        """Let time pass in which all events are stored."""
        for _ in range(int(seconds)):
            await self.clock.elapse(1)
            self.store()
            await self.clock.settle()

    async def stop_streams(self) -> None:
        """The first half of a triggerer's end: the streams are stopped, the triggers are still there."""
        await self.streams.stop_all()

    async def stop(self) -> None:
        """End as ``asyncio.run`` does: cancel whatever there is, once, and wait for it."""
        await self.stop_streams()
        other_tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in other_tasks:
            task.cancel()
        if other_tasks:
            await asyncio.wait(other_tasks, timeout=PATIENCE_SECONDS)


@pytest.fixture
async def triggerer(bench: Workbench, held_clock: FakeClock) -> Any:
    triggerer_of_test = Triggerer(bench, held_clock)
    yield triggerer_of_test
    await triggerer_of_test.stop()


def event_trigger(**arguments: Any) -> WorkflowInboxEventTrigger:
    return WorkflowInboxEventTrigger(**{"inbox": "orders", "wake_on_events": False, **arguments})


EVEN = "contains(`[0, 2, 4, 6, 8]`, payload.n)"
ODD = "contains(`[1, 3, 5, 7, 9]`, payload.n)"
FAILS = "length(payload.n) == `1`"
"""Fails on a number, which has no length."""


def being_deleted(bench: Workbench) -> None:
    """Delete the inbox, for a day, and create one of its name that has a message."""
    store = bench.service.store
    store.configure(deleting_seconds=86400)
    store.inboxes.delete(bench.inbox_id)
    former = store.inboxes.get(bench.inbox_id)
    former.name = "not in the way"
    created = store.inboxes.open(INBOX)
    former.name = INBOX
    store.messages.put(created.id, [{}], ids=["new"])


def put(bench: Workbench, *numbers: int) -> list[str]:
    ids = [f"m{number}" for number in numbers]
    bench.service.put(bench.inbox_id, *({"n": number} for number in numbers), ids=ids)
    return ids


@pytest.fixture
async def held_clock(bench: Workbench, fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """
    The clock of tasks that wait side by side, each until the test lets its time pass.

    Meanwhile it waits for the service, which is a real one, and for threads.
    """
    fake_clock.hold()
    monkeypatch.setattr(async_client, "exchange", fake_clock.counting(async_client.exchange))
    loop = asyncio.get_running_loop()
    begin = loop.run_in_executor

    def run_in_executor(*args: Any) -> Any:
        future = begin(*args)
        fake_clock.busy += 1
        future.add_done_callback(lambda _: setattr(fake_clock, "busy", fake_clock.busy - 1))
        return future

    monkeypatch.setattr(loop, "run_in_executor", run_in_executor)
    monkeypatch.setenv("AIRFLOW_DISABLE_GREENBACK_PORTAL", "true")
    return fake_clock
