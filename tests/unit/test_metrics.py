"""Each counter of an inbox, and what happens when it is told: who calls whom is not looked at."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_workflow import observers
from airflow_provider_workflow.client.errors import InboxPausedError, LeaseExpiredError
from airflow_provider_workflow.dispatch.replay import Replay
from airflow_provider_workflow.dispatch.runs import TaskRuns
from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.observers import metrics
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger
from tests.unit.fake_clock import FakeClock
from tests.unit.fake_stats import FakeStats
from tests.unit.fakes import api_error
from tests.unit.workbench import INBOX, Workbench

Scenario = Callable[[Workbench, ManualClock], Awaitable[None]]
SCENARIOS: dict[Scenario, dict[str, int]] = {}
"""What happens, and all that is counted then."""


def counts(**totals: int) -> Callable[[Scenario], Scenario]:
    def declare(scenario: Scenario) -> Scenario:
        SCENARIOS[scenario] = totals
        return scenario

    return declare


@counts(leased=2, started=2, acknowledged=2)
async def runs_are_started(bench: Workbench, clock: ManualClock) -> None:
    bench.put("a", "b")
    bench.ready_dispatcher().drain()


@counts(leased=1, existing=1, acknowledged=1)
async def a_run_is_found(bench: Workbench, clock: ManualClock) -> None:
    bench.start_before("a")
    bench.put("a")
    bench.ready_dispatcher().drain()


@counts(leased=2, started=1, repeated=1, acknowledged=2)
async def a_business_key_is_repeated(bench: Workbench, clock: ManualClock) -> None:
    bench.put("a", "b", payload={"key": 1})
    bench.dispatcher(once_per="payload.key").drain()


@counts(leased=1, started=1, without_key=1, acknowledged=1)
async def a_message_has_no_business_key(bench: Workbench, clock: ManualClock) -> None:
    bench.put("a", payload={})
    bench.dispatcher(once_per="payload.key").drain()


@counts(leased=2, started=1, rejected=1, acknowledged=1)
async def airflow_rejects_a_run(bench: Workbench, clock: ManualClock) -> None:
    bench.put("a", "b")
    bench.supervisor.refuse("b", api_error(422))
    bench.ready_dispatcher().drain()


@counts(leased=2, started=1, dead_lettered=1, acknowledged=2, replayed=1)
async def a_dead_letter_is_started_and_replayed(bench: Workbench, clock: ManualClock) -> None:
    bench.allow_dead_letters(after=1)
    bench.put("a", "b")
    bench.supervisor.refuse("b", api_error(422))
    bench.ready_dispatcher().drain()
    bench.supervisor.faults.clear()
    Replay.of(bench.dead_letters["b"]).start(TaskRuns(bench.ti), None, "a test")


@counts(leased=2, released=1)
async def one_of_two_messages_is_released(bench: Workbench, clock: ManualClock) -> None:
    bench.put("a", "b")
    bench.hook.release_messages(INBOX, bench.lease().lease_id, ["a"])


@counts(leased=2, lease_expired=2)
async def two_messages_are_acknowledged_too_late(bench: Workbench, clock: ManualClock) -> None:
    bench.put("a", "b")
    lease = bench.lease()
    clock.advance(301)
    with pytest.raises(LeaseExpiredError):
        bench.hook.acknowledge_messages(INBOX, lease.lease_id, ["a", "b"])


@counts(leased=2, lease_expired=1)
async def a_whole_lease_is_acknowledged_too_late(bench: Workbench, clock: ManualClock) -> None:
    """Nobody says how many messages it had."""
    bench.put("a", "b")
    lease = bench.lease()
    clock.advance(301)
    with pytest.raises(LeaseExpiredError):
        bench.hook.acknowledge_messages(INBOX, lease.lease_id)


@counts(leased=1, acknowledged=1, lease_expired=1)
async def one_of_two_acknowledged_messages_is_not_of_the_lease(bench: Workbench, clock: ManualClock) -> None:
    bench.put("a")
    bench.hook.acknowledge_messages(INBOX, bench.lease().lease_id, ["a", str(UUID(int=0))])


@counts(leased=2, acknowledged=2)
async def a_whole_lease_is_acknowledged(bench: Workbench, clock: ManualClock) -> None:
    bench.put("a", "b")
    bench.hook.acknowledge_messages(INBOX, bench.lease().lease_id)


@counts(quarantined=1)
async def a_message_is_found_in_quarantine(bench: Workbench, clock: ManualClock) -> None:
    bench.put("a", lease_count=4)
    bench.service.store.messages.lease(bench.inbox_id, 60, 1)
    clock.advance(61)
    bench.dispatcher().drain()


@counts(notices=1)
async def a_message_is_announced(bench: Workbench, clock: ManualClock) -> None:
    bench.put("a")
    trigger = WorkflowInboxNoticeTrigger(inbox=INBOX, wake_on_events=False)
    async with aclosing(trigger.run()) as events:
        await anext(events)


@counts(leased=2, emitted=2)
async def messages_are_put_into_an_event(bench: Workbench, clock: ManualClock) -> None:
    pytest.importorskip("airflow.triggers.shared_stream", reason="since Airflow 3.3")
    from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger
    from airflow_provider_workflow.triggers.event_producer import Batch, encode

    bench.put("a", "b")
    lease = bench.lease()

    async def stream() -> AsyncIterator[Batch]:
        yield Batch(lease, encode(lease.deliveries))

    async for _ in WorkflowInboxEventTrigger(INBOX).filter_shared_stream(stream()):
        pass


@counts(leased=1, rate_limited=2)
async def the_service_wants_fewer_calls(bench: Workbench, clock: ManualClock) -> None:
    bench.put("a")
    bench.service.fault("status", operation="lease", status=429, times=2)
    bench.lease()


@pytest.mark.usefixtures("fake_clock")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_each_counter_counts_what_its_name_says(
    scenario: Scenario, bench: Workbench, clock: ManualClock, fake_stats: FakeStats
) -> None:
    await scenario(bench, clock)

    assert fake_stats.totals == SCENARIOS[scenario]


def test_every_counter_has_a_scenario() -> None:
    names = {name for totals in SCENARIOS.values() for name in totals}
    assert names == {*metrics.COUNTERS, metrics.RATE_LIMITED.rpartition(".")[2]}


def test_the_stats_of_this_airflow_take_a_counter_and_a_gauge() -> None:
    """The other tests replace them."""
    metrics.send_metrics(observers.Event("leased", INBOX, "c", count=2, facts={observers.AGE: 1.5}))


def test_a_429_is_counted_for_its_family_of_calls(
    bench: Workbench, fake_clock: FakeClock, fake_stats: FakeStats
) -> None:
    bench.service.fault("status", operation="list_inboxes", status=429)
    bench.hook.list_inboxes()

    assert fake_stats.calls == [
        ("workflow.rate_limited", 1, {"conn_id": bench.hook.workflow_conn_id, "family": "inbox"})
    ]


def ages(fake_stats: FakeStats) -> list[float]:
    return [value for name, value, _ in fake_stats.calls if name == metrics.PREFIX + observers.AGE]


def test_each_lease_tells_the_age_of_its_oldest_message(
    bench: Workbench, clock: ManualClock, fake_clock: FakeClock, fake_stats: FakeStats
) -> None:
    bench.put("a")
    clock.advance(60)
    bench.put("b")
    clock.advance(30)
    fake_clock.advance(clock.now() - fake_clock.now())
    for _ in range(2):
        bench.hook.lease_messages(INBOX)

    assert ages(fake_stats) == [pytest.approx(90), 0]


def test_a_paused_inbox_without_messages_has_no_oldest_message(
    bench: Workbench, fake_stats: FakeStats
) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "user")
    with pytest.raises(InboxPausedError):
        bench.hook.lease_messages(INBOX)

    assert ages(fake_stats) == [0]


@pytest.mark.parametrize("created_at", [None, 5, "yesterday", "2999-01-01T00:00:00Z"])
def test_a_message_that_does_not_say_when_it_was_created_has_no_age(
    bench: Workbench, fake_stats: FakeStats, created_at: Any
) -> None:
    answer = {"lease_id": "l", "results": [{"id": "a", "payload": {}, "created_at": created_at}]}
    bench.service.fault("status", operation="lease", status=201, json=answer)
    bench.hook.lease_messages(INBOX)

    assert ages(fake_stats) == [0]
