"""Inboxes are paused, resumed and deleted, and what was done before is done."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    ConflictError,
    NotFoundError,
)
from airflow_provider_workflow.dispatch.lease import InboxUnusableError
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.operators.manage_inbox import (
    WorkflowDeleteInboxOperator,
    WorkflowPauseInboxOperator,
    WorkflowResumeInboxOperator,
)

NAME = "orders"
BY = pytest.mark.parametrize("by", ["name", "id"])


@pytest.fixture
def inbox(connected: EmulatorServer) -> str:
    """The id of the inbox ``orders``, which is active."""
    return connected.open_inbox(NAME)


def run(operator: Any, inbox: str = NAME, **arguments: Any) -> Any:
    return operator(task_id="t", inbox=inbox, **arguments).execute({})


def status(service: EmulatorServer, inbox: str) -> str:
    return service.store.inboxes.get(inbox).status


def test_a_resumed_inbox_that_initializes_is_returned_so(connected: EmulatorServer, inbox: str) -> None:
    connected.store.inboxes.pause(inbox)
    connected.store.configure(initializing_seconds=60)

    assert run(WorkflowResumeInboxOperator)["status"] == "initializing"
    assert run(WorkflowResumeInboxOperator)["status"] == "initializing", "a retry finds it so"


@pytest.mark.parametrize(
    ("operator", "state"),
    [
        (WorkflowPauseInboxOperator, "initializing"),
        (WorkflowPauseInboxOperator, "deleting"),
        (WorkflowResumeInboxOperator, "deleting"),
    ],
)
def test_a_state_that_it_cannot_lead_out_of_is_raised(
    connected: EmulatorServer, inbox: str, operator: Any, state: str
) -> None:
    connected.store.inboxes.force(inbox, state)

    with pytest.raises(ConflictError, match=state):
        run(operator, inbox)


@pytest.mark.parametrize("operator", [WorkflowPauseInboxOperator, WorkflowResumeInboxOperator])
def test_an_inbox_that_failed_to_initialize_says_what_to_do(
    connected: EmulatorServer, inbox: str, operator: Any
) -> None:
    connected.store.inboxes.force(inbox, "initialization_failure", "subscribe_failed")

    with pytest.raises(InboxUnusableError, match=r"failed to initialize \(subscribe_failed\)\. Delete it"):
        run(operator)


@pytest.mark.parametrize("operator", [WorkflowPauseInboxOperator, WorkflowResumeInboxOperator])
def test_an_inbox_that_is_not_there_is_raised(connected: EmulatorServer, operator: Any) -> None:
    with pytest.raises(NotFoundError, match="'nosuch'"):
        run(operator, "nosuch")


@BY
def test_an_inbox_is_deleted(
    connected: EmulatorServer, inbox: str, by: str, caplog: pytest.LogCaptureFixture
) -> None:
    given = NAME if by == "name" else inbox
    with caplog.at_level(logging.INFO):
        assert run(WorkflowDeleteInboxOperator, given) == {"inbox": given, "deleted": True}

    assert f"Inbox {given} was deleted" in caplog.text
    assert connected.store.inboxes.page(10, 0)[0] == 0


@BY
def test_an_inbox_that_is_gone_is_a_success_and_said(
    connected: EmulatorServer, inbox: str, by: str, caplog: pytest.LogCaptureFixture
) -> None:
    connected.store.inboxes.delete(inbox)
    given = NAME if by == "name" else inbox

    assert run(WorkflowDeleteInboxOperator, given) == {"inbox": given, "deleted": False}
    assert f"Inbox {given} does not exist; nothing to do" in caplog.text


def test_an_inbox_that_is_being_deleted_is_deleted(connected: EmulatorServer, inbox: str) -> None:
    connected.store.configure(deleting_seconds=60)
    connected.store.inboxes.delete(inbox)

    assert run(WorkflowDeleteInboxOperator, inbox) == {"inbox": inbox, "deleted": True}


def test_a_deletion_whose_answer_is_lost_succeeds(connected: EmulatorServer, inbox: str) -> None:
    connected.fault("drop", operation="delete_inbox", when="after")

    assert run(WorkflowDeleteInboxOperator, inbox)["inbox"] == inbox
    assert connected.store.inboxes.page(10, 0)[0] == 0


def test_a_deletion_that_the_service_does_not_make_now_is_raised(
    connected: EmulatorServer, inbox: str
) -> None:
    connected.fault("status", operation="delete_inbox", status=409, detail="It is busy.")

    with pytest.raises(ConflictError, match="It is busy"):
        run(WorkflowDeleteInboxOperator)
    assert status(connected, inbox) == "active"


@pytest.mark.parametrize("operator", [WorkflowPauseInboxOperator, WorkflowDeleteInboxOperator])
def test_a_refusal_is_raised(connected: EmulatorServer, inbox: str, operator: Any) -> None:
    connected.fault("status", status=403, times=None)

    with pytest.raises(AuthenticationError):
        run(operator, inbox)
