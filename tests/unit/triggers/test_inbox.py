"""The inbox trigger and its poll loop: waits, leases, faults, and states of the inbox."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import AsyncMock

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowNotFoundException

from airflow_provider_workflow.client import async_client
from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    InvalidRequestError,
    RateLimitError,
    ServerError,
    TransportError,
)
from airflow_provider_workflow.dispatch.lease import HeldLease
from airflow_provider_workflow.emulator.rules.queues import Messages
from airflow_provider_workflow.triggers.inbox import WorkflowInboxTrigger
from airflow_provider_workflow.triggers.polling import InboxHealth, Waits
from tests.unit.fake_clock import FakeClock, TimedEvent, nothing
from tests.unit.fake_stats import FakeStats
from tests.unit.workbench import INBOX, Workbench

pytestmark = pytest.mark.usefixtures("fake_clock")


@pytest.fixture
def wake_up(fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> TimedEvent:
    """Is set by the event stream."""
    event = TimedEvent(fake_clock)

    @asynccontextmanager
    async def listen(client: Any, inbox_id: str, streams: int) -> AsyncIterator[TimedEvent | None]:
        yield event if streams else None

    monkeypatch.setattr("airflow_provider_workflow.client.event_stream.listen", listen)
    return event


def trigger(**arguments: Any) -> WorkflowInboxTrigger:
    return WorkflowInboxTrigger(**{"inbox": "orders", "wake_on_events": False, **arguments})


async def fire(trigger_to_fire: WorkflowInboxTrigger) -> dict[str, Any]:
    """The payload of the one event of a trigger."""
    events = [event.payload async for event in trigger_to_fire.run()]
    assert len(events) == 1
    payload: dict[str, Any] = events[0]
    return payload


log = logging.getLogger("tests.polling")
FAULT = ServerError("made up", status=503)
WRONG = AuthenticationError("wrong secret", status=401)


@pytest.fixture
def health(fake_clock: FakeClock) -> InboxHealth:
    return InboxHealth("orders", "workflow_default", log)


def meet(health: InboxHealth, clock: FakeClock, *outcomes: Exception | None) -> list[float]:
    """Let calls fail, or succeed where there is None; the pauses after the errors, which are waited for."""
    pauses = []
    for error in outcomes:
        if error is None:
            health.succeeded()
        else:
            pauses.append(health.failed(error))
            clock.advance(pauses[-1])
    return pauses


def test_the_pauses_of_a_series_grow_to_less_than_a_minute_at_random(
    health: InboxHealth, fake_clock: FakeClock
) -> None:
    pauses = meet(health, fake_clock, *[FAULT] * 40)
    assert pauses[:3] == [5, 10, 20]
    assert all(20 <= pause <= 55 for pause in pauses[3:])
    assert len(set(pauses)) > 30


def test_the_pauses_reset_after_an_answer_and_another_series_is_logged_again(
    health: InboxHealth, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert meet(health, fake_clock, FAULT, FAULT, None, FAULT, WRONG) == [5, 10, 5, 10]
    levels = [record.levelname for record in caplog.records if record.name == log.name]
    assert levels == ["WARNING", "INFO", "WARNING", "ERROR"]


def test_the_next_long_series_is_said_to_be_long_again(
    health: InboxHealth, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    meet(health, fake_clock, *[FAULT] * 20, None, *[FAULT] * 20, None)
    levels = [record.levelname for record in caplog.records if record.name == log.name]
    assert levels == ["WARNING", "ERROR", "INFO"] * 2


@pytest.mark.parametrize("error", [FAULT, WRONG], ids=["transient", "permanent"])
def test_a_long_series_is_said_to_be_one_without_a_guess_at_its_cause(
    error: Exception, health: InboxHealth, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    meet(health, fake_clock, *[error] * 20)

    (_, record) = [entry for entry in caplog.records if entry.name == log.name]
    text = rf"Inbox orders has been unusable for [5-6] minutes; retrying: {re.escape(str(error))}"
    assert record.levelname == "ERROR"
    assert re.fullmatch(text, record.getMessage())


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (KeyError("x"), "KeyError: 'x'"),
        (AirflowException("The conn_id isn't defined"), "The conn_id isn't defined"),
        (ValueError("a\nb"), r"ValueError: a\nb"),
    ],
)
def test_an_error_is_one_line_with_a_traceback_if_it_does_not_explain_itself(
    error: Exception, cause: str, health: InboxHealth, caplog: pytest.LogCaptureFixture
) -> None:
    health.failed(error)

    [record] = [entry for entry in caplog.records if entry.name == log.name]
    text = f"Inbox orders cannot be used until this is fixed: {cause}"
    assert (record.levelname, record.getMessage()) == ("ERROR", text)
    assert bool(record.exc_info) is not isinstance(error, AirflowException)


def test_a_state_is_logged_once_and_again_with_another_reason(
    health: InboxHealth, caplog: pytest.LogCaptureFixture
) -> None:
    for reason in ("user", "abandoned"):
        for _ in range(2):
            health.seen({"status": "paused", "paused_reason": reason})
            health.seen({})  # an answer that has no state

    assert [record.getMessage().partition(",")[0] for record in caplog.records] == [
        "Inbox 'orders' is paused (user)",
        "Inbox 'orders' is paused (abandoned)",
    ]


class Subclass(WorkflowInboxTrigger):
    """A trigger of somebody else's."""


def test_a_subclass_serializes_as_itself_with_all_its_arguments() -> None:
    arguments = {
        "inbox": "orders",
        "workflow_conn_id": "other",
        "lease_limit": 7,
        "lease_seconds": 90,
        "poll_interval": 2,
        "max_poll_interval": 20,
        "wake_on_events": False,
        "on_paused": "wait",
        "settle_seconds": 6.0,
        "hold_seconds": 1.0,
        "alarm": {"alarmed_at": 1.0},
    }

    assert Subclass(**arguments).serialize() == (f"{__name__}.Subclass", arguments)


async def test_it_leases_and_hands_the_lease_over(bench: Workbench) -> None:
    bench.put("a", "b", "c")
    event = await fire(trigger(lease_limit=2, lease_seconds=90))

    assert set(event) == {"status", "inbox_name", "lease", "alarm"}
    assert (event["status"], event["inbox_name"]) == ("leased", INBOX)
    lease = HeldLease.from_hand_off(event["lease"])
    assert lease.inbox_id == bench.inbox_id
    assert lease.message_ids == ["a", "b"]
    assert bench.bodies_of("lease") == [{"lease_limit": 2, "lease_seconds": 90}]
    assert bench.service.count("ack") == bench.service.count("release") == 0


async def test_a_lease_is_handed_over_whatever_its_inbox_is_like(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = bench.service.store.messages
    deleting = {"inbox_attributes": {"status": "deleting"}}
    monkeypatch.setattr(messages, "lease", lambda *args: {**Messages.lease(messages, *args), **deleting})
    bench.put("a")
    bench.service.store.inboxes.get(bench.inbox_id).name = "\0\ud800"  # no database has it
    event = await fire(WorkflowInboxTrigger(bench.inbox_id, wake_on_events=False))
    assert (event["status"], event["inbox_name"]) == ("leased", r"\x00\ud800")


async def test_a_lease_that_is_too_large_to_hand_over_is_left_to_the_task(bench: Workbench) -> None:
    bench.put("big", payload="x" * 1_000_000)

    assert (await fire(trigger()))["status"] == "poll"
    assert bench.states == {"big": "available"}


async def test_after_a_hand_off_nothing_is_released(bench: Workbench, wake_up: TimedEvent) -> None:
    bench.put("a")
    events = trigger(wake_on_events=True).run()
    await anext(events)
    await events.aclose()

    assert bench.states == {"a": "leased"}
    assert bench.service.count("release") == 0


async def test_it_settles_before_it_leases(bench: Workbench, fake_clock: FakeClock) -> None:
    bench.put("a")
    requests: list[int] = []
    fake_clock.meanwhile = lambda _: requests.append(len(bench.service.requests))
    await fire(trigger(settle_seconds=6))

    assert fake_clock.slept == [6]
    assert requests == [0]


@pytest.mark.parametrize(("hold", "slept"), [(30, 30), (5, 6)])
async def test_holding_it_leases_nothing_and_only_wakes_the_sensor(
    bench: Workbench, fake_clock: FakeClock, hold: float, slept: float
) -> None:
    bench.put("a")

    assert await fire(trigger(settle_seconds=6, hold_seconds=hold)) == {"status": "poll"}
    assert fake_clock.slept == [slept]
    assert bench.service.requests == []


async def test_the_interval_doubles_while_the_inbox_stays_empty(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    fake_clock.then(*[nothing] * 29, lambda: bench.put("a"))
    await fire(trigger(poll_interval=5, max_poll_interval=60))

    assert fake_clock.slept[:3] == [5, 10, 20]
    assert all(20 <= seconds < 55 for seconds in fake_clock.slept[3:])
    assert len(set(fake_clock.slept)) > 15, "at random moments"


async def test_it_polls_no_faster_than_it_is_told(bench: Workbench, fake_clock: FakeClock) -> None:
    fake_clock.then(*[nothing] * 9, lambda: bench.put("a"))
    await fire(trigger(poll_interval=30, max_poll_interval=30))

    assert fake_clock.slept == [30] * 10


async def test_a_wake_up_resets_the_interval(
    bench: Workbench, fake_clock: FakeClock, wake_up: TimedEvent
) -> None:
    fake_clock.at(fake_clock.start + 20, wake_up.set)
    fake_clock.at(fake_clock.start + 34, lambda: bench.put("a"))
    await fire(trigger(wake_on_events=True))

    # After 0, 5, 15, 20, 25 and 35 seconds.
    assert (bench.service.count("lease"), fake_clock.elapsed) == (6, 35)


async def test_wake_ups_do_not_hasten_what_fails(
    bench: Workbench, fake_clock: FakeClock, wake_up: TimedEvent
) -> None:
    wake_up.set()
    bench.put("a")
    bench.service.fault("status", operation="lease", status=503, times=3)
    await fire(trigger(wake_on_events=True))

    # Whatever the wake-ups.
    assert fake_clock.slept == [5, 10, 20]


async def test_a_wake_up_for_what_others_lease_is_answered_once_a_second(
    bench: Workbench, fake_clock: FakeClock, wake_up: TimedEvent
) -> None:
    wake_up.set()
    fake_clock.then(*[wake_up.set] * 5, lambda: bench.put("a"))
    await fire(trigger(wake_on_events=True))

    assert fake_clock.slept == [1, 1, 1, 1, 1, 1]


@pytest.mark.parametrize("wakes", [False, True])
async def test_a_wait_until_a_moment_that_has_passed_takes_a_second(
    fake_clock: FakeClock, wakes: bool
) -> None:
    wake_up = TimedEvent(fake_clock) if wakes else None
    await Waits(trigger(), wake_up).wait(max_seconds=-5)

    assert fake_clock.elapsed == 1


async def test_a_certificate_that_does_not_verify_is_left_to_the_task(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The CA file may be a new one, which only a new client reads; if it is not, the task fails."""
    error = TransportError("the certificate does not verify", sent=False, permanent=True)
    monkeypatch.setattr(async_client, "exchange", AsyncMock(side_effect=error))

    assert (await fire(trigger()))["status"] == "poll"


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    texts = [record.getMessage() for record in caplog.records if record.name.endswith("triggers.inbox")]
    return [text for text in texts if "waiting for messages" not in text and " is active" not in text]


@pytest.mark.parametrize(
    "fault",
    [{"kind": "status", "status": 503}, {"kind": "drop"}, {"kind": "truncate"}],
)
async def test_a_fault_that_passes_is_logged_once_and_survived(
    bench: Workbench, fake_clock: FakeClock, fault: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a")
    # An answer that is cut may have leased: its messages come again.
    fake_clock.meanwhile = lambda _: bench.service.store.messages.expire()
    bench.service.fault(**fault, operation="lease", times=3)
    with caplog.at_level(logging.INFO):
        event = await fire(trigger())

    assert event["status"] == "leased"
    assert fake_clock.slept == [5, 10, 20]
    assert [line.split(";")[0] for line in lines(caplog)] == [
        "Inbox orders is unreachable",
        "Inbox orders is reachable again",
    ]


async def test_a_wait_that_the_service_requests_is_waited_for_once_and_is_no_error(
    bench: Workbench, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a")
    bench.service.fault("status", operation="lease", status=429, headers={"Retry-After": "1800"}, times=1)
    with caplog.at_level(logging.INFO):
        event = await fire(trigger())

    assert event["status"] == "leased"
    assert fake_clock.slept == [1800]
    assert bench.service.count("lease") == 2
    assert [record.levelname for record in caplog.records if "reachable" in record.getMessage()] == [
        "WARNING",
        "INFO",
    ]


async def test_a_trigger_waits_and_says_so_where_the_service_requested_it_of_another_caller(
    bench: Workbench, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a")
    limit = {"status": 429, "headers": {"Retry-After": "900"}}
    bench.service.fault("status", operation="get_inbox", **limit, times=1)
    with pytest.raises(RateLimitError):
        bench.hook.get_inbox(bench.inbox_id)
    requests = len(bench.service.requests)
    with caplog.at_level(logging.INFO):
        event = await fire(trigger())

    assert event["status"] == "leased"
    assert fake_clock.slept == [900]
    assert [request.operation for request in bench.service.requests[requests:]] == ["list_inboxes", "lease"]
    assert lines(caplog) == [
        "Inbox orders is unreachable; retrying: list_inboxes was not sent: the service accepts no inbox calls"
        " for 900 s",
        "Inbox orders is reachable again",
    ]


async def test_a_limit_of_the_rate_is_waited_out(bench: Workbench, fake_clock: FakeClock) -> None:
    bench.put("a")
    bench.service.fault("status", operation="lease", status=429, headers={"Retry-After": "7"}, times=6)

    assert (await fire(trigger()))["status"] == "leased"
    assert fake_clock.elapsed >= 6 * 7


async def test_a_fault_that_passes_is_survived_from_the_first_request_on(
    bench: Workbench, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a")
    bench.service.fault("status", operation="list_inboxes", status=503, times=2)
    with caplog.at_level(logging.WARNING):
        event = await fire(trigger())

    assert event["status"] == "leased"
    assert fake_clock.slept == [5, 10]
    assert len([line for line in lines(caplog) if "unreachable" in line]) == 1


@pytest.mark.parametrize("by", ["name", "id"])
async def test_an_inbox_that_is_deleted_while_the_trigger_waits_is_an_alarm_after_a_minute(
    bench: Workbench, fake_clock: FakeClock, by: str
) -> None:
    fake_clock.then(lambda: bench.hook.delete_inbox("orders"))
    event = await fire(trigger(inbox="orders" if by == "name" else bench.inbox_id))

    assert (event["status"], event["problem"]["kind"]) == ("poll", "missing")
    assert 60 <= fake_clock.elapsed < 180


async def test_a_permanent_error_that_is_not_of_the_source_is_raised(bench: Workbench) -> None:
    bench.service.fault("status", operation="lease", status=400, times=1)
    with pytest.raises(InvalidRequestError):
        await fire(trigger())


async def test_an_inbox_that_initializes_is_waited_for(bench: Workbench, fake_clock: FakeClock) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, "initializing")

    def begin() -> None:
        bench.service.store.inboxes.force(bench.inbox_id, "active")
        bench.put("a")

    fake_clock.then(begin)
    assert (await fire(trigger()))["status"] == "leased"


@pytest.mark.parametrize(("on_paused", "reason"), [("wait", "abandoned"), ("fail", "user")])
async def test_waiting_for_a_paused_inbox_names_the_reason_once(
    bench: Workbench, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture, on_paused: str, reason: str
) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, "paused", reason)

    def resume() -> None:
        bench.service.store.inboxes.resume(bench.inbox_id)
        bench.put("a")

    fake_clock.then(nothing, nothing, resume)
    with caplog.at_level(logging.INFO):
        assert (await fire(trigger(on_paused=on_paused)))["status"] == "leased"
    texts = [record.getMessage() for record in caplog.records if record.name.endswith("triggers.inbox")]
    assert texts[1].startswith(f"Inbox 'orders' is paused ({reason}), and new events are dropped. What to do")
    assert texts[2:] == ["Inbox orders is active"]


@pytest.mark.parametrize(
    ("wakes", "how"),
    [(True, "by its event stream and by polling every 5 to 60 s"), (False, "by polling every 5 to 60 s")],
)
async def test_how_it_waits_is_logged_when_it_begins(
    bench: Workbench, caplog: pytest.LogCaptureFixture, wakes: bool, how: str
) -> None:
    bench.put("a")
    with caplog.at_level(logging.INFO):
        await fire(trigger(wake_on_events=wakes))

    texts = [record.getMessage() for record in caplog.records if record.name.endswith("triggers.inbox")]
    assert texts[:1] == [f"Inbox orders at 127.0.0.1:{bench.service.port}: waiting for messages, {how}"]


@pytest.mark.parametrize(
    ("status", "on_paused", "kind"),
    [
        ("paused", "fail", "paused"),
        ("initialization_failure", "fail", "failed"),
        ("initialization_failure", "wait", "failed"),
    ],
)
async def test_an_inbox_that_is_paused_or_failed_to_initialize_is_an_alarm_after_a_minute(
    bench: Workbench, fake_clock: FakeClock, status: str, on_paused: str, kind: str
) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, status, "subscribe_failed")
    event = await fire(trigger(on_paused=on_paused))

    assert (event["status"], event["problem"]["kind"]) == ("poll", kind)
    assert "subscribe_failed" in event["problem"]["text"]
    assert event["alarm"]["began_at"] == fake_clock.start
    assert 60 <= fake_clock.elapsed < 180


async def test_an_error_that_airflow_raises_while_its_api_is_away_is_an_alarm_after_three_minutes(
    bench: Workbench, fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_WORKFLOW_DEFAULT")
    missing = AirflowNotFoundException("The conn_id `workflow_default` isn't defined")
    read = "airflow.providers.common.compat.connection.get_async_connection"
    monkeypatch.setattr(read, AsyncMock(side_effect=missing))
    event = await fire(trigger())

    assert event["problem"]["kind"] == "unusable"
    assert 180 <= fake_clock.elapsed < 300


async def test_it_fires_for_a_paused_inbox_of_which_others_lease_messages(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    fake_clock.moved_along.append(bench.service.store.clock)
    bench.put("rejected before")
    bench.lease(seconds=3600)
    inboxes = bench.service.store.inboxes
    fake_clock.at(fake_clock.start + 100, lambda: inboxes.force(bench.inbox_id, "paused", "authentication"))

    assert (await fire(trigger(wake_on_events=False)))["problem"]["kind"] == "paused"
    assert fake_clock.elapsed < 300


async def test_a_trigger_counts_what_it_leases(bench: Workbench, fake_stats: FakeStats) -> None:
    bench.put("a", "b")
    await fire(trigger())

    assert fake_stats.totals == {"leased": 2}
    assert fake_stats.tags == [{"inbox": INBOX, "conn_id": "workflow_default"}]
