"""
A day of an inbox whose state is a function of time, and the listeners of its messages.

The triggers, the sensor and the operator are the real ones. The service and Airflow are as little of each as
these need: answers by the state, DAG runs one after the other with their retries, XComs, asset events.
"""

from __future__ import annotations

import asyncio
import logging
import math
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    TaskDeferred,
)

from airflow_provider_workflow import clock, source
from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    InboxPausedError,
    NotFoundError,
    ServerError,
)
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from airflow_provider_workflow.triggers import polling
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger
from tests.unit.fakes import Supervisor, TaskInstance

INBOX_ID = "00000000-0000-4000-8000-000000000001"
DAY_SECONDS = 86400.0
START_SECONDS = 3.0
"""From an event to the start of its task."""
LEASABLE = ("ok", "paused")
ARRIVING = ("ok", "401", "500")
"""States in which events arrive; in the others they are dropped."""

State = Callable[[float], str]
"""The state at a second of the day: ``ok``, ``paused:REASON``, ``failed``, ``deleting``, 404, 401 or 500."""


class Over(BaseException):
    """The day is over."""


class Restart(BaseException):
    """The triggerer is restarted."""


class DayClock:
    """
    Moves while somebody sleeps, up to the end of the day.

    :param restart_at: seconds since 1970 at which the triggerer is restarted.
    """

    def __init__(self, seconds: float) -> None:
        self.start = self.time = 1_700_000_000.0
        self.ends_at = self.start + seconds
        self.restart_at = math.inf

    @property
    def second(self) -> float:
        return self.time - self.start

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        if self.time > self.ends_at:
            raise Over

    async def async_sleep(self, seconds: float) -> None:
        self.sleep(seconds)
        if self.time >= self.restart_at:
            raise Restart


@dataclass
class Service:
    """
    The service with one inbox.

    :param state: of the inbox.
    :param put_at: the second of each message, ascending.
    :param waited: how long each message waited in one stretch in which the inbox could be used.
    """

    clock: DayClock
    state: State
    put_at: list[float]
    waited: list[float] = field(default_factory=list)
    requests: int = 0
    _taken: int = 0

    def answered(self) -> dict[str, Any]:
        self.requests += 1
        status, _, reason = self.state(self.clock.second).partition(":")
        if status == "404":
            raise NotFoundError("Inbox 'orders' does not exist", status=404)
        if status == "401":
            raise AuthenticationError("invalid_token", status=401)
        if status == "500":
            raise ServerError("bad gateway", status=502)
        words = {"ok": "active", "failed": "initialization_failure"}
        return {"id": INBOX_ID, "status": words.get(status, status), "paused_reason": reason or None}

    @property
    def available(self) -> range:
        return range(self._taken, bisect_right(self.put_at, self.clock.second))

    def lease(self, count: int) -> dict[str, Any]:
        inbox, numbers = self.answered(), self.available[:count]
        if not numbers and inbox["status"] == "paused":
            paused = InboxPausedError("paused", status=409)
            paused.paused_reason = inbox["paused_reason"]
            raise paused
        self._taken += len(numbers)
        self.waited += [self._longest_wait(self.put_at[number]) for number in numbers]
        attributes = {"lease_count": 1, "possible_duplicate_data": False}
        messages = [
            {"id": f"m{number}", "payload": {}, "message_attributes": attributes} for number in numbers
        ]
        lease_id = f"lease {self._taken}" if messages else None
        return {"lease_id": lease_id, "results": messages, "inbox_attributes": inbox, "sent_at": clock.now()}

    def _longest_wait(self, put_at: float) -> float:
        longest, began = 0.0, None
        for second in range(int(put_at), int(self.clock.second) + 1):
            if self.state(second).partition(":")[0] not in LEASABLE:
                began = None
                continue
            began = second if began is None else began
            longest = max(longest, second - began)
        return longest

    # As triggers and tasks call it

    settings = SimpleNamespace(connection_id="workflow_default", base_url="https://service.invalid")
    workflow_conn_id = "workflow_default"

    async def send(self, call: Any) -> Any:
        if call.name == "lease_messages":
            return self.lease(call.json["lease_limit"])
        if call.name == "list_messages":
            self.answered()
            messages = [{"id": f"m{number}", "status": "available"} for number in self.available[:100]]
            return {"results": messages, "next": None}
        return self.answered()

    run_once = staticmethod(lambda calls, *args: ([], None))

    def get_inbox(self, inbox: str) -> Any:
        return self.answered()

    def lease_messages(self, inbox: str, count: int, seconds: int) -> Any:
        return self.lease(count)

    def acknowledge_messages(self, inbox: str, lease: str, ids: list[str]) -> Any:
        return {"results": ids}

    release_messages = acknowledge_messages

    def inbox_id(self, _: str) -> str:
        return str(self.answered()["id"])

    def for_shutdown(self) -> Service:
        return self

    def close(self) -> None:
        """Nothing is open."""


class Store:
    """The asset state store of Airflow, for the one asset of a watcher."""

    def __init__(self) -> None:
        self.rows: dict[str, Any] = {}

    async def aget(self, key: str, default: Any = None) -> Any:
        return self.rows.get(key, default)

    async def aset(self, key: str, value: Any) -> None:
        self.rows[key] = value

    async def adelete(self, key: str) -> None:
        self.rows.pop(key, None)


class Runs(TaskInstance):
    """
    The runs of a listener's DAG, one after the other, of which this is the task instance.

    :param is_dated: whether they have a logical date.
    """

    def __init__(self, *, is_dated: bool, supervisor: Supervisor) -> None:
        super().__init__(supervisor=supervisor)
        self.is_dated = is_dated
        self.failed_at: list[float] = []
        self.skipped = self.number = 0

    def begin(self) -> None:
        self.number += 1
        self.run_id = f"run {self.number}"

    def end(self, state: str, day: DayClock) -> None:
        if self.is_dated:
            ended_at = datetime.fromtimestamp(day.now(), UTC)
            self.previous = SimpleNamespace(run_id=self.run_id, state=state, end_date=ended_at)
        if state == "failed":
            self.failed_at.append(day.second)


class Sensor(WorkflowInboxSensor):
    """The sensor, with the service of the day."""

    service: Any = None

    @cached_property
    def hook(self) -> Any:
        return self.service


class Dispatch(WorkflowInboxDispatchOperator):
    """The operator, with the service of the day."""

    service: Any = None

    @cached_property
    def hook(self) -> Any:
        return self.service


class Day:
    """
    A day of one listener.

    :param state: of the inbox; an event arrives each minute in which it is not dropped.
    """

    def __init__(
        self, state: State, monkeypatch: Any, supervisor: Supervisor, seconds: float = DAY_SECONDS
    ) -> None:
        self.clock = DayClock(seconds)
        arriving = [at for at in range(30, int(seconds), 60) if state(at).partition(":")[0] in ARRIVING]
        self.service = Service(self.clock, state, [float(at) for at in arriving])
        self.runs = Runs(is_dated=True, supervisor=supervisor)

        @asynccontextmanager
        async def open_session(options: Any, health: Any) -> AsyncIterator[polling.InboxSession]:
            inbox: Any = self.service.answered()
            client: Any = self.service
            yield polling.InboxSession(client, inbox, polling.Waits(options, None))

        async def look_up(client: Any, inbox: str) -> Any:
            return self.service.answered()

        for name, function in (("open_session", open_session), ("look_up", look_up)):
            monkeypatch.setattr(polling, name, function)

    @property
    def failed_at(self) -> list[float]:
        return self.runs.failed_at

    @property
    def worst_wait(self) -> float:
        return max(self.service.waited, default=0.0)

    @property
    def is_all_started(self) -> bool:
        """Whether each message that arrived more than a minute before the last sound moment has its run."""
        ends_at = int(self.clock.ends_at - self.clock.start)
        usable = [at for at in range(ends_at) if self.service.state(at).partition(":")[0] in LEASABLE]
        due = [at for at in self.service.put_at if usable and at < usable[-1] - 600]
        return len(self.service.waited) >= len(due)

    @contextmanager
    def passes(self) -> Iterator[None]:
        """Let the day pass, with the same random intervals each time, and without log lines."""
        source.RANDOM.seed(1)
        disabled = logging.root.manager.disable
        logging.disable()
        try:
            with clock.use(self.clock), suppress(Over):
                yield
        finally:
            logging.disable(disabled)

    # Listeners

    def by_notices(self, restarts: float = 0, store: Store | None = None) -> Day:
        """
        A watcher, and a DAG that its notices start.

        :param restarts: seconds after which the triggerer is restarted, each time; 0 for never.
        """
        self.runs.is_dated = False
        with self.passes():
            while True:
                asyncio.run(self._watch(restarts, store))
        return self

    async def _watch(self, restarts: float, store: Store | None) -> None:
        trigger: Any = WorkflowInboxNoticeTrigger("orders", wake_on_events=False)
        trigger.asset_state_store = store
        self.clock.restart_at = self.clock.now() + (restarts or math.inf)
        with suppress(Restart):
            async for event in trigger.run():
                now = self.clock.time
                stamp = datetime.fromtimestamp(now, UTC)
                self.clock.time += START_SECONDS
                self._dispatch(
                    {"asset": [SimpleNamespace(extra={"payload": event.payload}, timestamp=stamp)]}
                )
                # Tasks do not hold up the triggerer.
                self.clock.time = now

    def by_schedule(self, seconds: float) -> Day:
        """A DAG with the operator on a time schedule."""
        with self.passes():
            while True:
                self._dispatch(None)
                elapsed_seconds = self.clock.second % seconds
                self.clock.sleep(seconds - elapsed_seconds + source.RANDOM.uniform(1, 10))
        return self

    def _dispatch(self, events: Any) -> None:
        self.runs.begin()
        operator = Dispatch(task_id="listen", inbox="orders", trigger_dag_id="handle")
        operator.service = self.service
        context: Any = {"ti": self.runs, "triggering_asset_events": events}
        self.runs.end(self._outcome(lambda: operator.execute(context)), self.clock)

    def _outcome(self, work: Callable[[], Any]) -> str:
        try:
            work()
        except AirflowSkipException:
            self.runs.skipped += 1
        except AirflowFailException:
            return "failed"
        except (AirflowException, ServerError):
            # A later retry, which this day leaves out, finds the service again.
            return "success"
        return "success"

    def by_sensor(self) -> Day:
        """A ``@continuous`` DAG with the deferrable sensor."""
        with self.passes():
            while True:
                self.runs.begin()
                self.runs.end(self._outcome(self._sense), self.clock)
                self.clock.sleep(5)
        return self

    def _sense(self) -> None:
        context: Any = {"ti": self.runs}
        deferral: TaskDeferred | None = None
        event: Any = None
        while True:
            sensor = Sensor(task_id="listen", inbox="orders", trigger_dag_id="handle", deferrable=True)
            sensor.service = self.service
            try:
                if deferral is None:
                    sensor.execute(context)
                else:
                    sensor.resume(context, event, **(deferral.kwargs or {}))
                return
            except TaskDeferred as deferred:
                deferral = deferred
            event = asyncio.run(self._first_event(deferral.trigger))
            self.clock.sleep(2)

    async def _first_event(self, trigger: Any) -> Any:
        async for event in trigger.run():
            return event.payload
        raise AssertionError("the trigger ended without an event")
