"""An inbox that takes its time is waited for, on the worker and in the triggerer."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, TaskDeferred

from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.operators.ensure_inbox import InboxNotSettledError, InitializationFailedError
from airflow_provider_workflow.triggers.inbox_active import WorkflowInboxActiveTrigger
from tests.unit.fake_clock import FakeClock
from tests.unit.operators.ensuring import (
    NAME,
    SUBSCRIBED,
    deferred,
    ensure,
    only_inbox,
    operator,
    resume,
    same_time,
)

__all__ = ["same_time"]


def test_it_waits_on_the_worker_with_growing_pauses(connected: EmulatorServer, fake_clock: FakeClock) -> None:
    connected.store.configure(initializing_seconds=30)

    assert ensure()["status"] == "active"
    assert fake_clock.slept == [1, 5, 10, 20]


def test_it_need_not_wait(connected: EmulatorServer, fake_clock: FakeClock) -> None:
    connected.store.configure(initializing_seconds=30)

    assert ensure(wait_until_active=False)["status"] == "initializing"
    assert fake_clock.slept == []


def test_it_waits_until_a_deleted_inbox_sets_its_name_free(
    connected: EmulatorServer, fake_clock: FakeClock
) -> None:
    old = ensure(wait_until_active=False)
    connected.store.configure(deleting_seconds=12)
    connected.store.inboxes.delete(old["id"])
    found = ensure(wait_until_active=False)

    assert found["id"] != old["id"]
    assert fake_clock.slept == [1, 5, 10]


def test_a_failed_inbox_that_takes_time_to_be_deleted_is_waited_for(
    connected: EmulatorServer, fake_clock: FakeClock
) -> None:
    connected.store.inboxes.force(ensure()["id"], "initialization_failure")
    connected.store.configure(deleting_seconds=12)

    assert ensure(recreate_failed=True)["status"] == "active"
    assert connected.count("delete_inbox") == 1


def test_it_gives_up_in_time_and_a_retry_may_go_on(connected: EmulatorServer, fake_clock: FakeClock) -> None:
    connected.store.configure(initializing_seconds=3600)

    with pytest.raises(InboxNotSettledError, match="'orders' was not active within 12 s") as caught:
        ensure(timeout=12)
    assert not isinstance(caught.value, AirflowFailException)
    assert fake_clock.slept == [1, 5, 6]


# Waiting in the triggerer


def test_it_defers_with_what_its_trigger_and_its_return_need(
    connected: EmulatorServer, fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL", "5")
    connected.store.configure(initializing_seconds=30)
    deferral = deferred(operator(deferrable=True, poll_interval=2, max_poll_interval=9))

    assert isinstance(deferral.trigger, WorkflowInboxActiveTrigger)
    assert deferral.trigger.serialize()[1] == {
        "inbox_id": only_inbox(connected).id,
        "deadline": fake_clock.now() + 599,
        "workflow_conn_id": "workflow_default",
        "poll_interval": 2,
        "max_poll_interval": 9,
        "settle_seconds": 6.0,
    }
    assert deferral.kwargs == {"deadline": fake_clock.now() + 599, "recreated": False}
    assert deferral.timeout is not None
    assert deferral.timeout.total_seconds() > 600


def test_what_it_waits_for_and_what_came_of_it_are_logged(
    connected: EmulatorServer, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    connected.store.configure(initializing_seconds=30)
    ensuring = operator(deferrable=True)
    with caplog.at_level(logging.INFO):
        deferral = deferred(ensuring)
        fake_clock.advance(30)
        inbox_id = resume(ensuring, deferral)["id"]

    lines = [each.getMessage() for each in caplog.records if each.name.endswith("operators.ensure_inbox")]
    assert lines == [
        f"Inbox {NAME} was created: id {inbox_id}, status initializing;"
        " waiting in the triggerer until it is active",
        f"Inbox {NAME} exists: id {inbox_id}, status active",
    ]


def test_an_inbox_that_is_active_soon_needs_no_deferral(
    connected: EmulatorServer, fake_clock: FakeClock
) -> None:
    connected.store.configure(initializing_seconds=1)

    assert ensure(deferrable=True)["status"] == "active"
    assert fake_clock.slept == [1]


def test_an_inbox_that_is_active_already_is_not_waited_for(
    connected: EmulatorServer, fake_clock: FakeClock
) -> None:
    connected.store.inboxes.open(NAME, {**SUBSCRIBED, "app_key": "ShopAPI@1.0.0", "connection_id": None})

    assert ensure(deferrable=True)["status"] == "active"
    assert fake_clock.slept == []


def test_after_the_trigger_it_looks_for_itself(
    connected: EmulatorServer, clock: ManualClock, fake_clock: FakeClock
) -> None:
    connected.store.configure(initializing_seconds=30)
    ensuring = operator(deferrable=True)
    deferral = deferred(ensuring)
    clock.advance(31)

    assert resume(ensuring, deferral)["status"] == "active"


def test_an_inbox_that_is_not_settled_after_all_is_waited_for_again(
    connected: EmulatorServer, fake_clock: FakeClock
) -> None:
    connected.store.configure(initializing_seconds=3000)
    ensuring = operator(deferrable=True)
    deferral = deferred(ensuring)
    fake_clock.advance(100)
    with pytest.raises(TaskDeferred) as again:
        resume(ensuring, deferral)

    assert fake_clock.slept == [1]
    assert again.value.kwargs == deferral.kwargs, "the deadline stays"


def test_that_it_created_the_inbox_again_crosses_the_deferral(
    connected: EmulatorServer, clock: ManualClock, fake_clock: FakeClock
) -> None:
    connected.store.inboxes.force(ensure()["id"], "initialization_failure")
    connected.store.configure(initializing_seconds=30)
    connected.store.inboxes.fail_next(NAME)
    ensuring = operator(deferrable=True, recreate_failed=True)
    deferral = deferred(ensuring)
    clock.advance(31)

    with pytest.raises(InitializationFailedError, match="again"):
        resume(ensuring, deferral)


def test_a_trigger_that_gave_up_ends_the_wait(connected: EmulatorServer, fake_clock: FakeClock) -> None:
    connected.store.configure(initializing_seconds=30)
    ensuring = operator(deferrable=True)

    with pytest.raises(InboxNotSettledError, match="within 600 s"):
        resume(ensuring, deferred(ensuring), "timed_out")


@pytest.mark.parametrize("status", [None, "leased"])
def test_an_event_that_is_not_known_fails(
    connected: EmulatorServer, fake_clock: FakeClock, status: Any
) -> None:
    connected.store.configure(initializing_seconds=30)
    ensuring = operator(deferrable=True)

    with pytest.raises(AirflowException, match="an unknown event"):
        resume(ensuring, deferred(ensuring), status)


def test_deferrable_by_default_follows_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")

    assert operator(deferrable=None).deferrable is True
