"""The real service that the environment names, and inboxes in it that the tests make and delete."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.operators.manage_inbox import (
    WorkflowDeleteInboxOperator,
    WorkflowEnsureInboxOperator,
)

CONNECTION_VARIABLE = "WORKFLOW_TEST_CONNECTION"
"""A connection of the type Workflow as JSON or URI, for an account that is only for tests."""
SUBSCRIPTION_VARIABLE = "WORKFLOW_TEST_SUBSCRIPTION"
"""
What the inboxes of the tests subscribe to, a JSON object with ``app_key``, ``action_key``, ``inputs`` and, if
the app needs one, ``connection_id``.
"""
EVENT_VARIABLE = "WORKFLOW_TEST_EVENT"
"""
A shell command that makes the app send one event: its payload is the JSON on stdin, and ``$INBOX`` names the
inbox that has to receive it.
"""
PATIENCE_SECONDS = 300.0
"""How long an event may take to become a message, and an acknowledged message to be shown so."""
PAUSE_SECONDS = 2.0


@dataclass(frozen=True)
class RealService:
    """
    :param subscription: of all inboxes; None where the environment has none.
    :param event_command: see :data:`EVENT_VARIABLE`.
    """

    connection: str
    subscription: Mapping[str, Any] | None
    event_command: str | None
    prefix: str = field(default_factory=lambda: f"system-test-{secrets.token_hex(4)}-")
    """Of the names of inboxes, so that none that exists is touched."""

    @classmethod
    def of_environment(cls) -> RealService:
        """The service, or the test is skipped."""
        connection = os.environ.get(CONNECTION_VARIABLE)
        if not connection:
            pytest.skip(f"{CONNECTION_VARIABLE} names no account of a real service")
        subscription = os.environ.get(SUBSCRIPTION_VARIABLE)
        return cls(connection, json.loads(subscription or "null"), os.environ.get(EVENT_VARIABLE))

    @contextmanager
    def inbox(self, name: str) -> Iterator[str]:
        """An inbox that is deleted in the end; without a subscription for it the test is skipped."""
        if self.subscription is None:
            pytest.skip(f"{SUBSCRIPTION_VARIABLE} names nothing to which an inbox could subscribe")
        WorkflowEnsureInboxOperator(task_id="ensure", name=name, **self.subscription).execute({})
        try:
            yield name
        finally:
            WorkflowDeleteInboxOperator(task_id="delete", inbox=name).execute({})

    def send(self, inbox: str, payloads: Sequence[Any]) -> None:
        """Make the app send events, and wait for their messages; without a command the test is skipped."""
        if self.event_command is None:
            pytest.skip(f"{EVENT_VARIABLE} names no command that makes the app send an event")
        for payload in payloads:
            subprocess.run(
                self.event_command,
                shell=True,
                check=True,
                env={**os.environ, "INBOX": inbox},
                input=json.dumps(payload),
                text=True,
                timeout=PATIENCE_SECONDS,
            )
        until(lambda: len(self.statuses(inbox)) >= len(payloads), f"{len(payloads)} messages in {inbox}")

    def statuses(self, inbox: str) -> list[str | None]:
        """The status of each message of an inbox."""
        return [message.get("status") for message in WorkflowHook().list_messages(inbox)]


def until(condition: Callable[[], bool], what: str) -> None:
    """
    Wait, in real time, as the service has a clock of its own.

    :raises TimeoutError: the condition did not hold in time.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {PATIENCE_SECONDS:g} s")
        time.sleep(PAUSE_SECONDS)
