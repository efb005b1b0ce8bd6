"""An inbox of a name and a subscription exists after it, and is active; or why not is said."""

from __future__ import annotations

import logging

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_workflow.client.errors import ConflictError
from airflow_provider_workflow.dispatch.lease import InboxUnusableError
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.operators.manage_inbox import InboxNameTakenError
from tests.unit.fake_clock import FakeClock
from tests.unit.operators.ensuring import NAME, ensure, only_inbox, same_time

__all__ = ["same_time"]


def test_an_inbox_is_created_and_returned_without_its_subscription(connected: EmulatorServer) -> None:
    found = ensure(notification_url="https://hook.example.com/", connection_id="12")

    assert found == {
        "id": only_inbox(connected).id,
        "name": NAME,
        "status": "active",
        "paused_reason": None,
    }
    assert only_inbox(connected).subscription == {
        "app_key": "ShopAPI@1.0.0",
        "action_key": "new_order",
        "inputs": {"region": "eu"},
        "connection_id": 12,
    }


def test_an_inbox_that_exists_is_found_again(connected: EmulatorServer) -> None:
    first, second = ensure(), ensure()

    assert first == second
    assert connected.count("update_inbox") == connected.count("get_inbox") == 0


def test_an_answer_that_is_lost_makes_no_second_inbox(connected: EmulatorServer) -> None:
    connected.fault("drop", operation="ensure_inbox", when="after")

    assert ensure()["id"] == only_inbox(connected).id


def test_another_notification_url_is_changed(connected: EmulatorServer) -> None:
    ensure(notification_url="https://old.example.com/")
    ensure(notification_url="https://new.example.com/")

    assert only_inbox(connected).notification_url == "https://new.example.com/"


def test_no_notification_url_leaves_the_one_there_is(connected: EmulatorServer) -> None:
    ensure(notification_url="https://old.example.com/")
    ensure()

    assert only_inbox(connected).notification_url == "https://old.example.com/"


def test_a_notification_url_is_a_secret_that_is_neither_returned_nor_logged(
    connected: EmulatorServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    made = ensure(notification_url="https://hook.example.com/first-secret")
    changed = ensure(notification_url="https://hook.example.com/second-secret")
    assert only_inbox(connected).notification_url == "https://hook.example.com/second-secret"

    assert "notification_url was changed" in caplog.text
    assert "-secret" not in f"{made} {changed} {caplog.text}"


def test_a_name_with_another_subscription_fails_for_good_and_shows_both(connected: EmulatorServer) -> None:
    inbox = ensure()
    with pytest.raises(InboxNameTakenError) as caught:
        ensure(inputs={"region": "us"}, recreate_failed=True)

    text = str(caught.value)
    assert isinstance(caught.value, AirflowFailException), "no retry"
    assert f"The name 'orders' belongs to inbox {inbox['id']}" in text
    assert '"inputs": {"region": "us"}' in text
    assert '"inputs": {"region": "eu"}' in text
    assert "ShopAPI@1.0.0" in text
    assert only_inbox(connected).id == inbox["id"]


def test_a_conflict_with_an_inbox_that_nobody_shows_is_raised_as_it_is(connected: EmulatorServer) -> None:
    connected.fault("status", operation="ensure_inbox", status=409, detail="It is taken.")

    with pytest.raises(ConflictError, match="It is taken"):
        ensure()


def test_a_paused_inbox_is_returned_with_a_warning(
    connected: EmulatorServer, caplog: pytest.LogCaptureFixture
) -> None:
    inbox = ensure()
    connected.store.inboxes.force(inbox["id"], "paused", "authentication")
    with caplog.at_level(logging.WARNING):
        found = ensure()

    assert (found["status"], found["paused_reason"]) == ("paused", "authentication")
    assert "Inbox orders is paused (authentication): new events are dropped" in caplog.text
    assert only_inbox(connected).status == "paused"


def test_an_inbox_that_fails_to_initialize_fails_for_good_and_says_what_to_do(
    connected: EmulatorServer, fake_clock: FakeClock
) -> None:
    connected.store.inboxes.fail_next(NAME)

    with pytest.raises(InboxUnusableError, match=r"'orders' failed to initialize \(subscribe") as caught:
        ensure()
    assert fake_clock.slept == [1], "no more than the first pause"
    assert isinstance(caught.value, AirflowFailException), "no retry"
    assert "Delete it and create it again" in str(caught.value)


def test_a_failed_inbox_is_deleted_and_created_again_where_asked(
    connected: EmulatorServer, caplog: pytest.LogCaptureFixture
) -> None:
    failed = connected.store.inboxes.force(ensure()["id"], "initialization_failure", "subscribe_failed")
    found = ensure(recreate_failed=True)

    assert found["status"] == "active"
    assert found["id"] != failed.id
    assert "failed to initialize (subscribe_failed); deleting it and creating it again" in caplog.text


def test_it_is_created_again_but_once(connected: EmulatorServer) -> None:
    connected.store.inboxes.force(ensure()["id"], "initialization_failure")
    connected.store.inboxes.fail_next(NAME, 10)

    with pytest.raises(InboxUnusableError, match="failed to initialize"):
        ensure(recreate_failed=True)
    assert connected.count("delete_inbox") == 1


def test_a_failed_inbox_that_somebody_else_deletes_is_created_again(connected: EmulatorServer) -> None:
    connected.store.inboxes.force(ensure()["id"], "initialization_failure")
    connected.fault("status", operation="delete_inbox", status=404, when="after")

    assert ensure(recreate_failed=True)["status"] == "active"


def test_the_notification_url_of_a_failed_inbox_is_left_alone(connected: EmulatorServer) -> None:
    connected.store.inboxes.force(ensure()["id"], "initialization_failure")

    with pytest.raises(InboxUnusableError):
        ensure(notification_url="https://new.example.com/")
    assert connected.count("update_inbox") == 0
