"""The operators that ensure, pause, resume and delete an inbox."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG, AirflowException, AirflowFailException
from airflow.providers.standard.operators.python import PythonOperator

from airflow_provider_workflow.client.errors import ConflictError, NotFoundError, TransportError
from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.operators.manage_inbox import (
    WorkflowDeleteInboxOperator,
    WorkflowEnsureInboxOperator,
    WorkflowPauseInboxOperator,
    WorkflowResumeInboxOperator,
)
from tests.unit.fake_clock import FakeClock

NAME = "orders"
SUBSCRIBED = {"app_key": "shop", "action_key": "new_order", "inputs": {"region": "eu"}}


def operator(**arguments: Any) -> WorkflowEnsureInboxOperator:
    all_arguments = {"name": NAME, **SUBSCRIBED, **arguments}
    return WorkflowEnsureInboxOperator(task_id="t", **all_arguments)


def ensure(**arguments: Any) -> Any:
    return operator(**arguments).execute({})


@pytest.fixture(autouse=True)
def same_time(fake_clock: FakeClock, clock: ManualClock) -> None:
    fake_clock.moved_along.append(clock)


def fail_initializations(service: EmulatorServer) -> None:
    """The answer after the next one is that the inbox has failed."""
    service.store.configure(initializing_seconds=60)
    failed_inbox = {
        "id": "0b5e55a4-7c7d-4bb2-8f0e-1d4c3c8d2a10",
        "name": NAME,
        "status": "initialization_failure",
        "paused_reason": "subscribe_failed",
    }
    service.fault("status", "ensure_inbox", after=1, times=None, status=200, json=failed_inbox)


def only_inbox(service: EmulatorServer) -> Any:
    (stored_inbox,) = service.store.inboxes.page(10, 0)[1]
    return stored_inbox


def test_an_inbox_is_created_and_returned_without_its_subscription(
    connected_emulator: EmulatorServer,
) -> None:
    returned_inbox = ensure(notification_url="https://hook.example.com/", connection_id="12")

    assert returned_inbox == {
        "id": only_inbox(connected_emulator).id,
        "name": NAME,
        "status": "active",
        "paused_reason": None,
    }
    assert only_inbox(connected_emulator).subscription == {
        "app_key": "ShopAPI@1.0.0",
        "action_key": "new_order",
        "inputs": {"region": "eu"},
        "connection_id": 12,
    }


def test_a_notification_url_is_a_secret_that_is_neither_returned_nor_logged(
    connected_emulator: EmulatorServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    returned_inbox = ensure(notification_url="https://hook.example.com/first-secret")
    changed_inbox = ensure(notification_url="https://hook.example.com/second-secret")
    assert only_inbox(connected_emulator).notification_url == "https://hook.example.com/second-secret"

    assert "notification_url was changed" in caplog.text
    assert "-secret" not in f"{returned_inbox} {changed_inbox} {caplog.text}"


def test_without_a_notification_url_that_of_the_inbox_stays(connected_emulator: EmulatorServer) -> None:
    ensure(notification_url="https://hook.example.com/")
    ensure()
    assert only_inbox(connected_emulator).notification_url == "https://hook.example.com/"


def test_inputs_may_be_what_another_task_returns() -> None:
    with DAG("d", schedule=None):
        ensuring = operator(inputs=PythonOperator(task_id="inputs", python_callable=dict).output)
    assert ensuring.upstream_task_ids == {"inputs"}


def test_inputs_that_are_a_task_in_place_of_its_output_are_named_where_the_dag_is_parsed() -> None:
    with pytest.raises(ValueError, match=r"^inputs is the task 'region' itself: give its \.output"):
        operator(inputs=PythonOperator(task_id="region", python_callable=dict))


def test_a_name_with_another_subscription_fails_for_good_and_shows_both(
    connected_emulator: EmulatorServer,
) -> None:
    inbox = ensure()
    with pytest.raises(AirflowFailException) as error_info:
        ensure(inputs={"region": "us", "rest": "x" * 100_000})

    text = str(error_info.value)
    assert len(text) < 3000
    assert f"The name 'orders' belongs to inbox {inbox['id']}" in text
    assert '"inputs": {"region": "us"' in text
    assert '"inputs": {"region": "eu"}' in text
    assert "ShopAPI@1.0.0" in text
    assert text.endswith("delete that inbox first, which deletes its messages too.")
    assert only_inbox(connected_emulator).id == inbox["id"]


def test_a_paused_inbox_is_returned_with_a_warning(
    connected_emulator: EmulatorServer, caplog: pytest.LogCaptureFixture
) -> None:
    inbox = ensure()
    connected_emulator.store.inboxes.force(inbox["id"], "paused", "authentication")
    with caplog.at_level(logging.WARNING):
        returned_inbox = ensure()

    assert (returned_inbox["status"], returned_inbox["paused_reason"]) == ("paused", "authentication")
    assert "Inbox orders is paused (authentication): new events are dropped" in caplog.text
    assert only_inbox(connected_emulator).status == "paused"


def test_an_inbox_that_fails_to_initialize_fails_for_good_and_says_what_to_do(
    connected_emulator: EmulatorServer, fake_clock: FakeClock
) -> None:
    fail_initializations(connected_emulator)

    with pytest.raises(
        AirflowFailException, match=r"'orders' failed to initialize \(subscribe"
    ) as error_info:
        ensure()
    assert fake_clock.slept == [1], "no more than the first pause"
    assert "Delete it and create it again" in str(error_info.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "x" * 101),
        ("app_key", " "),
        ("inputs", "{}"),
        ("notification_url", "https://" + "x" * 2048),
        ("wait_until_active", "False"),
        ("timeout", float("inf")),
    ],
)
def test_a_wrong_argument_is_named_where_the_dag_is_parsed(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{field}"):
        operator(**{field: value})


def test_arguments_are_templated(connected_emulator: EmulatorServer) -> None:
    url = "https://hook.example.com/"
    texts = {"name": "n", "app_key": "mail", "action_key": "a", "connection_id": 7, "notification_url": url}
    templates = {name: f"{{{{ params.{name} }}}}" for name in texts}
    ensuring = operator(**templates, inputs={"region": "{{ params.region }}"})
    ensuring.render_template_fields({"params": {**texts, "region": "us"}})
    returned_inbox = ensuring.execute({})

    assert (returned_inbox["name"], only_inbox(connected_emulator).notification_url) == ("n", url)
    assert only_inbox(connected_emulator).subscription == {
        "app_key": "MailAPI@1.0.0",
        "action_key": "a",
        "inputs": {"region": "us"},
        "connection_id": 7,
    }
    assert set(ensuring.template_fields_renderers) <= set(ensuring.template_fields)


def test_inputs_that_were_rendered_to_text_are_named(connected_emulator: EmulatorServer) -> None:
    ensuring = operator(inputs="{{ params.inputs }}")
    ensuring.render_template_fields({"params": {"inputs": {"region": "us"}}})

    with pytest.raises(ValueError, match=r"^inputs must be a dictionary, not a str; for a dictionary from"):
        ensuring.execute({})
    assert connected_emulator.requests == []


def test_an_inbox_that_says_no_more_than_its_id_and_status_will_do(
    connected_emulator: EmulatorServer,
) -> None:
    url = "https://example.com/told"
    bare = {"id": connected_emulator.open_inbox(NAME), "status": "active"}
    connected_emulator.fault("status", operation="ensure_inbox", status=200, json=bare)

    ensure(notification_url=url)
    assert only_inbox(connected_emulator).notification_url == url


def test_a_name_is_taken_by_the_new_inbox_beside_the_one_that_is_being_deleted(
    connected_emulator: EmulatorServer,
) -> None:
    inboxes = [{"id": status, "name": NAME, "status": status} for status in ("deleting", "active")]
    connected_emulator.fault("status", operation="ensure_inbox", status=409)
    connected_emulator.fault(
        "status", operation="list_inboxes", status=200, json={"results": inboxes, "next": None}
    )

    with pytest.raises(AirflowFailException, match="belongs to inbox active"):
        ensure()


def test_an_inbox_without_a_name_is_not_taken_for_the_one_that_has_it(
    connected_emulator: EmulatorServer,
) -> None:
    page = {"results": [{"id": "i", "status": "active"}], "next": None}
    connected_emulator.fault("status", operation="ensure_inbox", status=409, detail="It is taken.")
    connected_emulator.fault("status", operation="list_inboxes", status=200, json=page)

    with pytest.raises(ConflictError, match="It is taken"):
        ensure()


def test_it_waits_until_a_deleted_inbox_sets_its_name_free(
    connected_emulator: EmulatorServer, fake_clock: FakeClock
) -> None:
    old = ensure(wait_until_active=False)
    connected_emulator.store.configure(deleting_seconds=12)
    connected_emulator.store.inboxes.delete(old["id"])
    returned_inbox = ensure(wait_until_active=False)

    assert returned_inbox["id"] != old["id"]
    assert fake_clock.slept == [1, 2, 4, 8]


def test_it_gives_up_in_time_and_a_retry_may_go_on(
    connected_emulator: EmulatorServer, fake_clock: FakeClock
) -> None:
    connected_emulator.store.configure(initializing_seconds=3600)

    with pytest.raises(AirflowException, match="'orders' was not active within 12 s") as error_info:
        ensure(timeout=12)
    assert not isinstance(error_info.value, AirflowFailException)
    assert fake_clock.slept == [1, 2, 4, 5]


@pytest.fixture
def inbox(connected_emulator: EmulatorServer) -> str:
    return connected_emulator.open_inbox(NAME)


def run(operator: Any, inbox: str = NAME, **arguments: Any) -> Any:
    return operator(task_id="t", inbox=inbox, **arguments).execute({})


def status(service: EmulatorServer, inbox: str) -> str:
    return service.store.inboxes.get(inbox).status


CHANGED = pytest.mark.parametrize(
    ("operator", "before", "after", "reason"),
    [
        (WorkflowPauseInboxOperator, "active", "paused", "user"),
        (WorkflowResumeInboxOperator, "paused", "active", None),
    ],
)


@CHANGED
@pytest.mark.parametrize("by_name", [True, False])
def test_an_inbox_is_paused_and_resumed_and_what_is_so_already_is_a_success_and_said(
    connected_emulator: EmulatorServer,
    inbox: str,
    operator: Any,
    before: str,
    after: str,
    reason: str | None,
    by_name: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    connected_emulator.store.inboxes.force(inbox, before)
    reference = NAME if by_name else inbox

    changed_inbox = {"id": inbox, "name": NAME, "status": after, "paused_reason": reason}
    assert run(operator, reference) == changed_inbox
    assert status(connected_emulator, inbox) == after
    assert f"Inbox {NAME} is {after} now" in caplog.text
    assert run(operator, reference) == changed_inbox
    assert f"Inbox {NAME} is {after} already; nothing to do" in caplog.text


@CHANGED
def test_a_change_whose_answer_is_lost_succeeds_in_the_retry(
    connected_emulator: EmulatorServer, inbox: str, operator: Any, before: str, after: str, reason: str | None
) -> None:
    connected_emulator.store.inboxes.force(inbox, before)
    connected_emulator.fault("drop", "pause_inbox" if after == "paused" else "resume_inbox", when="after")
    with pytest.raises(TransportError):
        run(operator)

    assert (run(operator)["status"], status(connected_emulator, inbox)) == (after, after)
    assert run(operator)["paused_reason"] == reason


def test_a_resumed_inbox_that_initializes_is_returned_so(
    connected_emulator: EmulatorServer, inbox: str
) -> None:
    connected_emulator.store.inboxes.pause(inbox)
    connected_emulator.store.configure(initializing_seconds=60)

    assert run(WorkflowResumeInboxOperator)["status"] == "initializing"
    assert run(WorkflowResumeInboxOperator)["status"] == "initializing", "a retry finds it so"


@pytest.mark.parametrize(
    ("operator", "state"),
    [(WorkflowPauseInboxOperator, "initializing"), (WorkflowResumeInboxOperator, "deleting")],
)
def test_a_state_that_it_cannot_lead_out_of_is_raised(
    connected_emulator: EmulatorServer, inbox: str, operator: Any, state: str
) -> None:
    connected_emulator.store.inboxes.force(inbox, state)

    with pytest.raises(ConflictError, match=state):
        run(operator, inbox)


@pytest.mark.parametrize("operator", [WorkflowPauseInboxOperator, WorkflowResumeInboxOperator])
def test_an_inbox_that_is_not_there_is_raised(connected_emulator: EmulatorServer, operator: Any) -> None:
    with pytest.raises(NotFoundError, match="'missing'"):
        run(operator, "missing")


def test_an_inbox_that_failed_to_initialize_says_what_to_do(
    connected_emulator: EmulatorServer, inbox: str
) -> None:
    connected_emulator.store.inboxes.force(inbox, "initialization_failure", "subscribe_failed")

    with pytest.raises(AirflowFailException, match=r"failed to initialize \(subscribe_failed\)\. Delete it"):
        run(WorkflowPauseInboxOperator)


def test_an_inbox_is_deleted_once_and_its_absence_is_a_success_and_said(
    connected_emulator: EmulatorServer, inbox: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        assert run(WorkflowDeleteInboxOperator) == {"inbox": NAME, "deleted": True}

    assert "Inbox orders was deleted" in caplog.text
    assert connected_emulator.store.inboxes.page(10, 0)[0] == 0
    assert run(WorkflowDeleteInboxOperator) == {"inbox": NAME, "deleted": False}
    assert "Inbox orders does not exist; nothing to do" in caplog.text


def test_an_inbox_that_is_being_deleted_is_deleted(connected_emulator: EmulatorServer, inbox: str) -> None:
    connected_emulator.store.configure(deleting_seconds=60)
    connected_emulator.store.inboxes.delete(inbox)

    assert run(WorkflowDeleteInboxOperator, inbox) == {"inbox": inbox, "deleted": True}


@pytest.mark.parametrize("seconds", [0, 60])
def test_a_deletion_whose_answer_is_lost_is_one(
    connected_emulator: EmulatorServer, inbox: str, seconds: float
) -> None:
    connected_emulator.store.configure(deleting_seconds=seconds)
    connected_emulator.fault("drop", operation="delete_inbox", when="after")
    assert run(WorkflowDeleteInboxOperator)["deleted"]


def test_a_deletion_that_the_service_does_not_make_now_is_raised(
    connected_emulator: EmulatorServer, inbox: str
) -> None:
    connected_emulator.fault("status", operation="delete_inbox", status=409, detail="It is busy.")

    with pytest.raises(ConflictError, match="It is busy"):
        run(WorkflowDeleteInboxOperator)
    assert status(connected_emulator, inbox) == "active"
