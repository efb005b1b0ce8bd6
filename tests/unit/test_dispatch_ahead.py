"""While runs are started the next lease is fetched and the last acknowledged; two are held at most."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Any

import pytest

from airflow_provider_workflow.client.errors import InboxPausedError, WorkflowError
from airflow_provider_workflow.dispatch.rejections import TargetError
from airflow_provider_workflow.dispatch.results import Drained
from tests.unit.fake_clock import FakeClock
from tests.unit.fakes import api_error
from tests.unit.workbench import TaskTimeout, Workbench

PATIENCE_SECONDS = 10.0
"""How long a thread is waited for that does not come."""


class Watched:
    """
    A method of the hook, with an event for each of its calls.

    :param until: what its first call waits for before it is made.
    """

    def __init__(self, bench: Workbench, name: str, until: Event | None = None) -> None:
        self.calls = [Event() for _ in range(10)]
        self.waited_in_vain = False
        self._method = getattr(bench.hook, name)
        self._until = until
        self._count = 0
        setattr(bench.hook, name, self)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        first, self._count = self._count == 0, self._count + 1
        if first and self._until is not None:
            self.waited_in_vain = not self._until.wait(PATIENCE_SECONDS)
        try:
            return self._method(*arguments, **options)
        finally:
            self.calls[self._count - 1].set()


def at_run(bench: Workbench, message_id: str, act: Callable[[], Any]) -> None:
    """Do something as soon as the run of this message is there."""

    def on_start() -> None:
        if bench.supervisor.started[-1] == message_id:
            act()

    bench.supervisor.on_start = on_start


def test_the_next_lease_is_fetched_before_the_last_run_of_this_one(bench: Workbench) -> None:
    leased = Watched(bench, "lease_messages")
    in_time: list[bool] = []
    at_run(bench, "b", lambda: in_time.append(leased.calls[1].wait(PATIENCE_SECONDS)))
    bench.put(*"abc")

    assert bench.ready_dispatcher().drain() is Drained.EMPTY
    assert in_time == [True]
    assert bench.supervisor.started == ["a", "b", "c"]
    assert bench.states == {}


def test_runs_of_the_next_lease_start_before_the_last_is_acknowledged(bench: Workbench) -> None:
    begun = Event()
    acknowledged = Watched(bench, "acknowledge_messages", until=begun)
    at_run(bench, "c", begun.set)
    bench.put(*"abc")

    bench.ready_dispatcher().drain()
    assert not acknowledged.waited_in_vain
    assert bench.states == {}


def test_an_acknowledgement_does_not_wait_behind_a_lease_ahead_that_is_told_to_wait(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    bench.put(*"abcd")
    busy = {"status": 429, "headers": {"Retry-After": "60"}}
    bench.service.fault("status", operation="lease", after=1, times=4, **busy)

    assert bench.ready_dispatcher().drain() is Drained.EMPTY
    calls = [each.operation for each in bench.service.requests if each.operation in ("lease", "ack")]
    assert calls[:3] == ["lease", "lease", "ack"]
    assert bench.supervisor.started == [*"abcd"]
    assert bench.states == {}


def test_never_more_than_two_leases_are_held(bench: Workbench) -> None:
    bench.put(*"abcdefghij")
    bench.ready_dispatcher().drain()

    calls = [each.operation for each in bench.service.requests if each.operation in ("lease", "ack")]
    held = [calls[:place].count("lease") - calls[:place].count("ack") for place in range(1, len(calls) + 1)]
    assert max(held) <= 2
    assert bench.lease_sizes == [2] * 6
    assert len(bench.supervisor.started) == 10


def test_no_more_than_max_messages_are_leased_ahead_either(bench: Workbench) -> None:
    bench.put(*"abcdef")

    assert bench.ready_dispatcher(max_messages=3).drain() is Drained.LIMIT
    assert bench.lease_sizes == [2, 1]
    assert bench.states == {"d": "available", "e": "available", "f": "available"}


def test_a_fault_gives_back_the_lease_that_was_fetched_ahead(bench: Workbench) -> None:
    leased = Watched(bench, "lease_messages")
    at_run(bench, "a", lambda: bench.supervisor.fail(api_error(404, "not_found")))
    bench.put(*"abcd")

    with pytest.raises(TargetError):
        bench.ready_dispatcher().drain()
    assert leased.calls[1].is_set()
    assert bench.supervisor.started == ["a"]
    assert bench.states == {"b": "available", "c": "available", "d": "available"}


def test_nothing_is_leased_after_an_acknowledgement_that_failed_for_good_meanwhile(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    bench.put(*"abcd")
    bench.service.fault(
        "status", operation="lease", status=429, headers={"Retry-After": "1"}, after=1, times=1
    )
    bench.service.fault("status", operation="ack", status=400, times=None)

    with pytest.raises(WorkflowError, match="acknowledge_messages"):
        bench.ready_dispatcher().drain()
    assert bench.service.count("lease") == 2
    assert bench.supervisor.started == ["a", "b"]
    assert bench.states == {"a": "leased", "b": "leased", "c": "available", "d": "available"}


def test_a_task_that_times_out_gives_it_back_as_well(bench: Workbench) -> None:
    def end(run: Any) -> None:
        if run.conf["message"]["id"] == "b":
            raise TaskTimeout

    bench.supervisor.faults.append(end)
    bench.put(*"abcd")

    with pytest.raises(TaskTimeout):
        bench.ready_dispatcher().drain()
    assert bench.states == {"b": "available", "c": "available", "d": "available"}


def test_an_acknowledgement_that_fails_behind_is_raised_and_nothing_is_held(bench: Workbench) -> None:
    bench.service.fault("status", operation="ack", status=400, times=1)
    bench.put(*"abcdef")

    with pytest.raises(WorkflowError):
        bench.ready_dispatcher().drain()
    assert bench.supervisor.started == ["a", "b", "c", "d"]
    assert bench.states == {"a": "leased", "b": "leased", "e": "available", "f": "available"}


def test_an_acknowledgement_that_fails_is_raised_though_the_inbox_is_said_to_be_paused(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = bench.hook.lease_messages

    def leases_once(*given: Any, **options: Any) -> Any:
        if bench.service.count("lease"):
            raise InboxPausedError("lease_messages: paused", status=409)
        return lease(*given, **options)

    monkeypatch.setattr(bench.hook, "lease_messages", leases_once)
    bench.service.fault("status", operation="ack", status=400, times=1)
    bench.put(*"ab")

    with pytest.raises(WorkflowError, match="acknowledge_messages"):
        bench.ready_dispatcher().drain()
    assert bench.states == {"a": "leased", "b": "leased"}


def test_two_acknowledgements_that_fail_are_both_told(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.service.fault("status", operation="ack", status=400, times=None)
    bench.put(*"abcdef")

    with pytest.raises(WorkflowError, match="acknowledge_messages"):
        bench.ready_dispatcher().drain()
    assert "Inbox orders: an acknowledgement failed as well: acknowledge_messages" in caplog.text


def test_a_lease_that_fails_ahead_is_met_after_the_work_on_this_one(bench: Workbench) -> None:
    leased = Watched(bench, "lease_messages")
    bench.put(*"abc")
    at_run(bench, "b", lambda: leased.calls[1].wait(PATIENCE_SECONDS))
    dispatcher = bench.ready_dispatcher()
    bench.service.fault("status", operation="lease", status=503, times=1, after=1)
    met: list[WorkflowError] = []

    def is_transient_error(error: WorkflowError) -> bool:
        met.append(error)
        return True

    dispatcher.is_transient_error = is_transient_error
    assert dispatcher.drain() is Drained.UNREACHABLE
    assert [error.status for error in met] == [503]
    assert bench.supervisor.started == ["a", "b"]
    assert bench.states == {"c": "available"}
