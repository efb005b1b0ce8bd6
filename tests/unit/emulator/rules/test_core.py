"""The atomic section."""

from __future__ import annotations

import threading

from airflow_provider_workflow.emulator.clock import Clock, ManualClock
from airflow_provider_workflow.emulator.rules.core import Core
from airflow_provider_workflow.emulator.rules.store import Store
from airflow_provider_workflow.emulator.settings import Settings


class Recorder(Core):
    def __init__(self) -> None:
        super().__init__(ManualClock(), Settings())
        self.events: list[str] = []

    def commit(self) -> None:
        self.events.append("commit")


def test_nothing_is_announced_before_it_is_durable() -> None:
    core = Recorder()
    core.listeners.append(lambda inbox_id: core.events.append(f"announced {inbox_id}"))
    with core:
        with core:
            core.announce("orders")
        assert core.events == []
    assert core.events == ["commit", "announced orders"]


def test_messages_put_from_many_threads_are_all_there(store: Store, inbox_id: str) -> None:
    def put() -> None:
        for _ in range(50):
            store.messages.put(inbox_id, [{}])

    threads = [threading.Thread(target=put) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.inboxes.get(inbox_id).counters["put"] == 400
    leased = [store.messages.lease(inbox_id, lease_limit=100)["results"] for _ in range(5)]
    assert [len(each) for each in leased] == [100, 100, 100, 100, 0]


def test_a_moved_clock_tells_and_can_be_moved_back() -> None:
    for clock in (ManualClock(), Clock()):
        heard: list[float] = []
        clock.listeners.append(lambda clock=clock, heard=heard: heard.append(clock.offset))  # type: ignore[misc]
        before = clock.now()
        clock.advance(100)
        assert 100 <= clock.now() - before < 101
        clock.set_offset(0)
        assert heard == [100, 0]
