"""An inbox that takes its time is waited for."""

from __future__ import annotations

import logging

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from airflow_provider_workflow.dispatch.lease import InboxUnusableError
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.fake_clock import FakeClock
from tests.unit.operators.ensuring import NAME, SUBSCRIBED, ensure, same_time

__all__ = ["same_time"]


def test_it_waits_on_the_worker_with_growing_pauses(connected: EmulatorServer, fake_clock: FakeClock) -> None:
    connected.store.configure(initializing_seconds=30)

    assert ensure()["status"] == "active"
    assert fake_clock.slept == [1, 2, 4, 8, 16]


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
    assert fake_clock.slept == [1, 2, 4, 8]


def test_a_failed_inbox_that_takes_time_to_be_deleted_is_waited_for(
    connected: EmulatorServer, fake_clock: FakeClock
) -> None:
    connected.store.inboxes.force(ensure()["id"], "initialization_failure")
    connected.store.configure(deleting_seconds=12)

    assert ensure(recreate_failed=True)["status"] == "active"
    assert connected.count("delete_inbox") == 1


def test_it_gives_up_in_time_and_a_retry_may_go_on(connected: EmulatorServer, fake_clock: FakeClock) -> None:
    connected.store.configure(initializing_seconds=3600)

    with pytest.raises(AirflowException, match="'orders' was not active within 12 s") as caught:
        ensure(timeout=12)
    assert not isinstance(caught.value, AirflowFailException)
    assert fake_clock.slept == [1, 2, 4, 5]


def test_the_inbox_is_logged_once_it_is_active(
    connected: EmulatorServer, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    connected.store.configure(initializing_seconds=30)
    with caplog.at_level(logging.INFO):
        inbox_id = ensure()["id"]

    lines = [record.getMessage() for record in caplog.records if ".operators." in record.name]
    assert lines == [f"Inbox {NAME} exists: id {inbox_id}, status active"]


def test_an_inbox_that_is_active_soon_is_waited_for_a_second(
    connected: EmulatorServer, fake_clock: FakeClock
) -> None:
    connected.store.configure(initializing_seconds=1)

    assert ensure()["status"] == "active"
    assert fake_clock.slept == [1]


def test_an_inbox_that_is_active_already_is_not_waited_for(
    connected: EmulatorServer, fake_clock: FakeClock
) -> None:
    subscription = {**SUBSCRIBED, "app_key": "ShopAPI@1.0.0", "connection_id": None}
    connected.store.inboxes.create(NAME, subscription)
    connected.store.inboxes.find(NAME)

    assert ensure()["status"] == "active"
    assert fake_clock.slept == []


def test_an_inbox_that_fails_again_is_created_again_once(
    connected: EmulatorServer, fake_clock: FakeClock
) -> None:
    connected.store.inboxes.force(ensure()["id"], "initialization_failure")
    connected.store.configure(initializing_seconds=30)
    connected.store.inboxes.fail_next(NAME)

    with pytest.raises(InboxUnusableError):
        ensure(recreate_failed=True)
    assert connected.count("delete_inbox") == 1
