"""An inbox of a name and a subscription exists after it, and is active; or why not is said."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, TaskDeferred
from airflow.sdk import DAG, task

from airflow_provider_workflow.client.errors import AuthenticationError, ConflictError
from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.named_inbox import InboxNameTakenError
from airflow_provider_workflow.operators.ensure_inbox import (
    InboxNotSettledError,
    InitializationFailedError,
    WorkflowEnsureInboxOperator,
)
from airflow_provider_workflow.triggers.inbox_active import WorkflowInboxActiveTrigger
from tests.unit.workbench import FakeTime

NAME = "orders"
SUBSCRIBED = {"app_key": "shop", "action_key": "new_order", "inputs": {"region": "eu"}}
MODULE = "airflow_provider_workflow.operators.ensure_inbox"


def operator(**arguments: Any) -> WorkflowEnsureInboxOperator:
    given = {"name": NAME, **SUBSCRIBED, "deferrable": False, **arguments}
    return WorkflowEnsureInboxOperator(task_id="t", **given)


def ensure(**arguments: Any) -> Any:
    return operator(**arguments).execute({})


def deferred(ensuring: WorkflowEnsureInboxOperator) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as caught:
        ensuring.execute({})
    return caught.value


def resume(ensuring: WorkflowEnsureInboxOperator, deferral: TaskDeferred, status: Any = "settled") -> Any:
    """Go on as Airflow does, with what crossed its database."""
    brought = json.loads(json.dumps({**(deferral.kwargs or {}), "event": {"status": status}}))
    return ensuring.resume_execution(str(deferral.method_name), brought, {})


@pytest.fixture(autouse=True)
def hands(monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> FakeTime:
    """The time of the task, which passes only where it sleeps, for the emulator as well."""

    class Hands(FakeTime):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            clock.advance(seconds)

    fake = Hands()
    monkeypatch.setattr(f"{MODULE}.time", fake)
    return fake


def only_inbox(service: EmulatorServer) -> Any:
    (found,) = service.store.inboxes.page(10, 0)[1]
    return found


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

    assert "another notification_url" in caplog.text
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


def test_an_inbox_that_fails_to_initialise_fails_for_good_and_says_what_to_do(
    connected: EmulatorServer, hands: FakeTime
) -> None:
    connected.store.inboxes.fail_next(NAME)

    with pytest.raises(
        InitializationFailedError, match=r"'orders' failed to initialise \(subscribe"
    ) as caught:
        ensure(deferrable=True)
    assert hands.slept == [1], "no more than the first pause"
    assert isinstance(caught.value, AirflowFailException), "no retry"
    assert "connection_id; then set recreate_failed=True, or delete the inbox" in str(caught.value)


def test_a_failed_inbox_is_deleted_and_created_again_where_asked(
    connected: EmulatorServer, caplog: pytest.LogCaptureFixture
) -> None:
    failed = connected.store.inboxes.force(ensure()["id"], "initialization_failure", "subscribe_failed")
    found = ensure(recreate_failed=True)

    assert found["status"] == "active"
    assert found["id"] != failed.id
    assert "failed to initialise (subscribe_failed); deleting it and creating it again" in caplog.text


def test_it_is_created_again_but_once(connected: EmulatorServer) -> None:
    connected.store.inboxes.force(ensure()["id"], "initialization_failure")
    connected.store.inboxes.fail_next(NAME, 10)

    with pytest.raises(InitializationFailedError, match="failed to initialise again") as caught:
        ensure(recreate_failed=True)
    assert "recreate_failed" not in str(caught.value)
    assert connected.count("delete_inbox") == 1


def test_a_failed_inbox_that_somebody_else_deletes_is_created_again(connected: EmulatorServer) -> None:
    connected.store.inboxes.force(ensure()["id"], "initialization_failure")
    connected.fault("status", operation="delete_inbox", status=404, when="after")

    assert ensure(recreate_failed=True)["status"] == "active"


def test_the_notification_url_of_a_failed_inbox_is_left_alone(connected: EmulatorServer) -> None:
    connected.store.inboxes.force(ensure()["id"], "initialization_failure")

    with pytest.raises(InitializationFailedError):
        ensure(notification_url="https://new.example.com/")
    assert connected.count("update_inbox") == 0


# Waiting on the worker


def test_it_waits_on_the_worker_with_growing_pauses(connected: EmulatorServer, hands: FakeTime) -> None:
    connected.store.configure(initializing_seconds=30)

    assert ensure()["status"] == "active"
    assert hands.slept == [1, 5, 10, 20]


def test_it_need_not_wait(connected: EmulatorServer, hands: FakeTime) -> None:
    connected.store.configure(initializing_seconds=30)

    assert ensure(wait_until_active=False)["status"] == "initializing"
    assert hands.slept == []


def test_it_waits_until_a_deleted_inbox_sets_its_name_free(
    connected: EmulatorServer, hands: FakeTime
) -> None:
    old = ensure(wait_until_active=False)
    connected.store.configure(deleting_seconds=12)
    connected.store.inboxes.delete(old["id"])
    found = ensure(wait_until_active=False)

    assert found["id"] != old["id"]
    assert hands.slept == [1, 5, 10]


def test_a_failed_inbox_that_takes_time_to_be_deleted_is_waited_for(
    connected: EmulatorServer, hands: FakeTime
) -> None:
    connected.store.inboxes.force(ensure()["id"], "initialization_failure")
    connected.store.configure(deleting_seconds=12)

    assert ensure(recreate_failed=True)["status"] == "active"
    assert connected.count("delete_inbox") == 1


def test_it_gives_up_in_time_and_a_retry_may_go_on(connected: EmulatorServer, hands: FakeTime) -> None:
    connected.store.configure(initializing_seconds=3600)

    with pytest.raises(InboxNotSettledError, match="'orders' was not active within 12 s") as caught:
        ensure(timeout=12)
    assert not isinstance(caught.value, AirflowFailException)
    assert hands.slept == [1, 5, 6]


# Waiting in the triggerer


def test_it_defers_with_what_its_trigger_and_its_return_need(
    connected: EmulatorServer, hands: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL", "5")
    connected.store.configure(initializing_seconds=30)
    deferral = deferred(operator(deferrable=True, poll_interval=2, max_poll_interval=9))

    assert isinstance(deferral.trigger, WorkflowInboxActiveTrigger)
    assert deferral.trigger.serialize()[1] == {
        "inbox_id": only_inbox(connected).id,
        "deadline": hands.now + 599,
        "workflow_conn_id": "workflow_default",
        "poll_interval": 2,
        "max_poll_interval": 9,
        "settle_seconds": 6.0,
    }
    assert deferral.kwargs == {"deadline": hands.now + 599, "recreated": False}
    assert deferral.timeout is not None
    assert deferral.timeout.total_seconds() > 600


def test_an_inbox_that_is_active_soon_needs_no_deferral(connected: EmulatorServer, hands: FakeTime) -> None:
    connected.store.configure(initializing_seconds=1)

    assert ensure(deferrable=True)["status"] == "active"
    assert hands.slept == [1]


def test_an_inbox_that_is_active_already_is_not_waited_for(
    connected: EmulatorServer, hands: FakeTime
) -> None:
    connected.store.inboxes.open(NAME, {**SUBSCRIBED, "app_key": "ShopAPI@1.0.0", "connection_id": None})

    assert ensure(deferrable=True)["status"] == "active"
    assert hands.slept == []


def test_after_the_trigger_it_looks_for_itself(
    connected: EmulatorServer, clock: ManualClock, hands: FakeTime
) -> None:
    connected.store.configure(initializing_seconds=30)
    ensuring = operator(deferrable=True)
    deferral = deferred(ensuring)
    clock.advance(31)

    assert resume(ensuring, deferral)["status"] == "active"


def test_an_inbox_that_is_not_settled_after_all_is_waited_for_again(
    connected: EmulatorServer, hands: FakeTime
) -> None:
    connected.store.configure(initializing_seconds=3000)
    ensuring = operator(deferrable=True)
    deferral = deferred(ensuring)
    hands.now += 100
    with pytest.raises(TaskDeferred) as again:
        resume(ensuring, deferral)

    assert hands.slept == [1]
    assert again.value.kwargs == deferral.kwargs, "the deadline stays"


def test_that_it_created_the_inbox_again_crosses_the_deferral(
    connected: EmulatorServer, clock: ManualClock, hands: FakeTime
) -> None:
    connected.store.inboxes.force(ensure()["id"], "initialization_failure")
    connected.store.configure(initializing_seconds=30)
    connected.store.inboxes.fail_next(NAME)
    ensuring = operator(deferrable=True, recreate_failed=True)
    deferral = deferred(ensuring)
    clock.advance(31)

    with pytest.raises(InitializationFailedError, match="again"):
        resume(ensuring, deferral)


def test_a_trigger_that_gave_up_ends_the_wait(connected: EmulatorServer, hands: FakeTime) -> None:
    connected.store.configure(initializing_seconds=30)
    ensuring = operator(deferrable=True)

    with pytest.raises(InboxNotSettledError, match="within 600 s"):
        resume(ensuring, deferred(ensuring), "timed_out")


@pytest.mark.parametrize("status", [None, "leased", 5])
def test_an_event_that_is_not_known_fails(connected: EmulatorServer, hands: FakeTime, status: Any) -> None:
    connected.store.configure(initializing_seconds=30)
    ensuring = operator(deferrable=True)

    with pytest.raises(AirflowException, match="an event that is not known"):
        resume(ensuring, deferred(ensuring), status)


def test_deferrable_by_default_follows_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")

    assert operator(deferrable=None).deferrable is True


# Arguments


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "x" * 101),
        ("app_key", " "),
        ("action_key", None),
        ("inputs", "{}"),
        ("inputs", ["a"]),
        ("notification_url", ""),
        ("notification_url", "https://" + "x" * 2048),
        ("wait_until_active", "False"),
        ("recreate_failed", 1),
        ("poll_interval", 0),
        ("max_poll_interval", -1),
        ("poll_interval", 61),
        ("timeout", float("inf")),
        ("timeout", True),
    ],
)
def test_a_wrong_argument_is_named_where_the_dag_is_parsed(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{field}"):
        operator(**{field: value})


def test_arguments_are_templated(connected: EmulatorServer) -> None:
    texts = {name: f"{{{{ params.{name} }}}}" for name in ("name", "app_key", "action_key", "connection_id")}
    ensuring = operator(
        **texts, inputs={"region": "{{ params.region }}"}, notification_url="{{ params.url }}"
    )
    url = "https://hook.example.com/"
    params = {
        "name": "n",
        "app_key": "mail",
        "action_key": "a",
        "connection_id": 7,
        "region": "us",
        "url": url,
    }
    ensuring.render_template_fields({"params": params})
    found = ensuring.execute({})

    assert (found["name"], only_inbox(connected).notification_url) == ("n", url)
    assert only_inbox(connected).subscription == {
        "app_key": "MailAPI@1.0.0",
        "action_key": "a",
        "inputs": {"region": "us"},
        "connection_id": 7,
    }
    assert set(ensuring.template_fields_renderers) <= set(ensuring.template_fields)


def test_inputs_that_were_rendered_to_text_are_named(connected: EmulatorServer) -> None:
    ensuring = operator(inputs="{{ params.inputs }}")
    ensuring.render_template_fields({"params": {"inputs": {"region": "us"}}})

    with pytest.raises(ValueError, match=r"^inputs must be a dictionary, not a str; to take it whole"):
        ensuring.execute({})
    assert connected.requests == []


def test_inputs_may_be_what_another_task_returns() -> None:
    with DAG("d", schedule=None):

        @task
        def inputs() -> dict[str, str]:
            return {}

        ensuring = operator(inputs=inputs())

    assert ensuring.upstream_task_ids == {"inputs"}


def test_a_refusal_is_raised(connected: EmulatorServer) -> None:
    connected.fault("status", operation="ensure_inbox", status=403, times=None)

    with pytest.raises(AuthenticationError):
        ensure()


def test_an_inbox_that_says_no_more_than_its_id_and_status_will_do(connected: EmulatorServer) -> None:
    url = "https://example.com/told"
    bare = {"id": connected.open_inbox(NAME), "status": "active"}
    connected.fault("status", operation="ensure_inbox", status=200, json=bare)

    ensure(notification_url=url)
    assert only_inbox(connected).notification_url == url


def test_an_inbox_without_a_name_is_not_taken_for_the_one_that_has_it(connected: EmulatorServer) -> None:
    page = {"results": [{"id": "i", "status": "active"}], "next": None}
    connected.fault("status", operation="ensure_inbox", status=409)
    connected.fault("status", operation="list_inboxes", status=200, json=page)

    with pytest.raises(ConflictError):
        ensure()
