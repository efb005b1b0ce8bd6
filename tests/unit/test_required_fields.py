"""Every call against a service that answers with the required fields alone, and with words that are new."""

from __future__ import annotations

from contextlib import aclosing
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_workflow.cli.main import main
from airflow_provider_workflow.client.errors import NotFoundError
from airflow_provider_workflow.dispatch.lease import HeldLease
from airflow_provider_workflow.emulator.rules import inboxes
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.operators.inbox import (
    WorkflowAcknowledgeOperator,
    WorkflowInboxDispatchOperator,
    WorkflowReleaseOperator,
)
from airflow_provider_workflow.operators.manage_inbox import (
    WorkflowDeleteInboxOperator,
    WorkflowEnsureInboxOperator,
    WorkflowPauseInboxOperator,
    WorkflowResumeInboxOperator,
)
from airflow_provider_workflow.operators.workflows import WorkflowGuessOperator, WorkflowTemplatesOperator
from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger
from tests.unit.fakes import Supervisor, TaskInstance
from tests.unit.triggers.test_inbox import fire, trigger

pytestmark = pytest.mark.usefixtures("fake_clock")

INBOX = "0f0e0d0c-0b0a-4908-8706-050403020100"
MESSAGE = "11111111-2222-4333-8444-555555555555"
LEASE = "99999999-2222-4333-8444-555555555555"
SUBSCRIPTION: Any = {"app_key": "shop", "action_key": "new_order", "inputs": {}}


INBOX_CALLS = {
    "get_inbox": 200,
    "ensure_inbox": 201,
    "pause_inbox": 200,
    "resume_inbox": 200,
    "delete_inbox": 202,
}
"""Calls that are answered with an inbox, and the status of the answer."""


@pytest.fixture
def service(connected_emulator: EmulatorServer, monkeypatch: pytest.MonkeyPatch) -> EmulatorServer:
    """A service that answers with the required fields alone; its inbox "invoices" holds a message."""
    monkeypatch.setattr(inboxes, "uuid", SimpleNamespace(uuid4=lambda: INBOX))
    connected_emulator.store.configure(required_fields_only=True)
    connected_emulator.put("invoices", {"n": 1}, ids=[MESSAGE])
    return connected_emulator


def answer(service: EmulatorServer, operation: str, status: int, body: Any, times: int | None = None) -> None:
    service.fault("status", operation=operation, status=status, json=body, times=times)


def show(service: EmulatorServer, **fields: Any) -> None:
    """Let all calls that are answered with inboxes show one with these fields."""
    inbox = {"id": INBOX, "status": "active", **fields}
    answer(service, "list_inboxes", 200, {"results": [inbox]})
    for operation, status in INBOX_CALLS.items():
        answer(service, operation, status, inbox)


def lease(service: EmulatorServer, message: dict[str, Any], **fields: Any) -> None:
    """Let the next lease have this message, and these fields beside it."""
    answer(service, "lease", 201, {"lease_id": LEASE, "results": [message], **fields}, times=1)


def ensure() -> Any:
    return WorkflowEnsureInboxOperator(task_id="t", name="orders", **SUBSCRIPTION, timeout=60).execute({})


LEASED = {"lease_id": LEASE, "inbox_id": INBOX, "messages": [{"id": MESSAGE}]}
OPERATORS = (
    (WorkflowPauseInboxOperator, "archived", {"inbox": INBOX}),
    (WorkflowResumeInboxOperator, "archived", {"inbox": INBOX}),
    (WorkflowDeleteInboxOperator, "archived", {"inbox": INBOX}),
    (WorkflowAcknowledgeOperator, "active", {"lease": LEASED}),
    (WorkflowReleaseOperator, "active", {"lease": LEASED}),
    (WorkflowGuessOperator, "active", {"description": "an order"}),
    (WorkflowTemplatesOperator, "active", {"limit": 1}),
)


@pytest.mark.parametrize(("operator", "status", "arguments"), OPERATORS)
def test_every_operator_reads_the_required_fields_alone(
    operator: Any, status: str, arguments: dict[str, Any], service: EmulatorServer
) -> None:
    show(service, status=status)

    operator(task_id="t", **arguments).execute({})


@pytest.mark.parametrize("status", [None, "paused", "archived"])
def test_a_message_with_its_id_alone_starts_its_run_whatever_the_state_beside_its_lease(
    status: str | None, service: EmulatorServer, supervisor: Supervisor
) -> None:
    service.store.messages.lease(INBOX)
    beside = {"inbox_attributes": {"status": status, "paused_reason": "meteor"}} if status else {}
    lease(service, {"id": MESSAGE, "status": "frozen"}, **beside)
    ti = TaskInstance(supervisor=supervisor)
    WorkflowInboxDispatchOperator(task_id="t", inbox=INBOX, trigger_dag_id="handle").execute({"ti": ti})

    assert len(supervisor.runs) == 1
    assert service.count("ack") == 1


def test_a_name_that_is_taken_is_final_though_the_subscription_is_not_shown(service: EmulatorServer) -> None:
    answer(service, "ensure_inbox", 409, {"detail": "taken"})
    show(service, name="orders")

    with pytest.raises(AirflowFailException, match="existing: not shown by the service"):
        ensure()


def test_an_inbox_is_found_by_its_name_where_the_answer_has_it_as_key_alone(service: EmulatorServer) -> None:
    show(service, key="orders")

    assert WorkflowHook().get_inbox("orders")["name"] == "orders"
    assert ensure()["name"] == "orders"


def test_an_inbox_without_a_name_is_not_taken_for_that_of_any_name(service: EmulatorServer) -> None:
    with pytest.raises(NotFoundError, match="give the inbox's id instead"):
        WorkflowHook().get_inbox("invoices")


COMMANDS = {
    "inbox list": (),
    "inbox show": (INBOX,),
    "inbox ensure": ("orders", "--app-key", "shop", "--action-key", "new_order"),
    "inbox pause": (INBOX,),
    "inbox resume": (INBOX,),
    "inbox delete": (INBOX, "--yes"),
    "inbox messages": (INBOX,),
    "inbox lease": (INBOX,),
    "inbox ack": (INBOX, LEASE),
    "inbox release": (INBOX, LEASE),
    "guess": ("an order",),
    "templates": ("--limit", "1"),
    "doctor": ("--inbox", INBOX),
}


WITHOUT_OUTPUT = (
    *("Nothing was ", "There is nothing to lease"),
    "Error: Inbox 'orders' failed to initialize (no reason given)",
)
"""What commands say that print no result."""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_reads_the_required_fields_alone(
    command: str, service: EmulatorServer, capsys: pytest.CaptureFixture[str]
) -> None:
    for status in ("archived", "paused", "initialization_failure"):
        service.emulator.faults.clear()
        show(service, status=status)
        main([*command.split(), *COMMANDS[command]])

        out, err = capsys.readouterr()
        assert out or err.startswith(WITHOUT_OUTPUT), err
        for text in (out, err):
            assert "KeyError" not in text
            assert "unexpected" not in text


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ("inbox list", "archived"),
        ("inbox show", "archived"),
        ("inbox messages", "frozen"),
        ("inbox lease", "archived"),
        ("templates", "retired"),
    ],
)
def test_words_that_are_new_are_shown_as_they_are(
    command: str, word: str, service: EmulatorServer, capsys: pytest.CaptureFixture[str]
) -> None:
    state = {"status": "archived", "paused_reason": "meteor"}
    show(service, **state)
    lease(service, {"id": MESSAGE, "status": "frozen"}, inbox_attributes=state)
    answer(service, "list_messages", 200, {"results": [{"id": MESSAGE, "status": "frozen"}]})
    answer(service, "templates", 200, [{"id": 1, "status": "retired"}])
    main([*command.split(), *COMMANDS[command]])

    assert word in capsys.readouterr().out


@pytest.mark.parametrize("is_odd", [False, True])
async def test_the_inbox_trigger_hands_over_such_a_message(is_odd: bool, service: EmulatorServer) -> None:
    if is_odd:
        lease(service, {"id": MESSAGE}, inbox_attributes={"status": "archived", "paused_reason": "meteor"})
    event = await fire(trigger(inbox=INBOX))

    assert event["status"] == "leased"
    assert HeldLease.from_hand_off(event["lease"]).message_ids == [MESSAGE]


async def test_the_notice_trigger_announces_such_messages(service: EmulatorServer) -> None:
    show(service, status="archived")
    watching = WorkflowInboxNoticeTrigger(INBOX, wake_on_events=False)
    async with aclosing(watching.run()) as events:
        payload = (await anext(events)).payload

    assert payload["inbox_id"] == INBOX


async def test_the_event_trigger_leases_such_messages(service: EmulatorServer) -> None:
    pytest.importorskip("airflow.triggers.shared_stream", reason="since Airflow 3.3")
    from airflow_provider_workflow.triggers.event_producer import InboxProducer

    lease(service, {"id": MESSAGE}, inbox_attributes={"status": "archived"})
    producer = InboxProducer(WorkflowInboxEventTrigger(INBOX, wake_on_events=False))
    async with aclosing(producer.open_stream()) as batches:  # type: ignore[type-var]
        batch, _ = await anext(batches)
    await producer.aclose()

    assert [message.id for message in batch.messages] == [MESSAGE]
