"""
A pytest plugin for tests of DAGs that use this provider: it gives each test an emulator of its own.

Enable it in a ``conftest.py``::

    pytest_plugins = ["airflow_provider_workflow.pytest_plugin"]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from airflow_provider_workflow import process_state
from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.server import EmulatorServer


class WorkflowEmulator:
    """
    A workflow service without inboxes, whose clock stands still until the test moves it.

    :param server: the emulator, with all its methods.
    :param clock: its clock.
    """

    def __init__(self, server: EmulatorServer, clock: ManualClock) -> None:
        self.server = server
        self._clock = clock

    def open_inbox(self, name: str) -> str:
        """Create an active inbox unless it exists; return its id."""
        return self.server.open_inbox(name)

    def put(self, inbox: str, *payloads: Any) -> list[str]:
        """
        Put messages into an inbox, which is created unless it exists.

        :param inbox: its name or id.
        :param payloads: of the messages, each a JSON value.
        :return: the ids of the messages.
        """
        return self.server.put(inbox, *payloads)

    def fault(self, kind: str, operation: str | None = None, **fields: Any) -> None:
        """
        Make requests fail.

        :param kind: ``status`` (with ``status=503``), ``drop``, ``slow``, ``truncate``, ``duplicate`` ...;
            see ``airflow_provider_workflow.emulator.faults.Fault`` for all of them and their fields.
        :param operation: ``lease``, ``ack``, ``release``, ``token`` ...; None for every request.
        :param fields: such as ``times``, the number of requests that fail: 1 by default, None for all.
        """
        self.server.fault(kind, operation=operation, **fields)

    def advance(self, seconds: float) -> None:
        """Move the service's clock, past the end of a lease for instance."""
        self._clock.advance(seconds)

    def statuses(self, inbox: str) -> dict[str, str]:
        """Status of each message: ``available``, ``leased``, ``acked`` or ``quarantined``, by id."""
        messages = self.server.summary(inbox)["messages"]
        return {message["id"]: message["status"] for message in messages}

    def assert_acknowledged(self, inbox: str, message_ids: Iterable[Any]) -> None:
        """
        Assert that exactly these messages of an inbox were acknowledged.

        :raises AssertionError: the text names the messages that differ.
        """
        statuses, expected = self.statuses(inbox), set(message_ids)
        acknowledged = {message_id for message_id, status in statuses.items() if status == "acked"}
        missing = {each: statuses.get(each, "unknown") for each in sorted(expected - acknowledged, key=str)}
        if missing:
            raise AssertionError(f"not acknowledged in {inbox!r}: {missing}")
        if more := sorted(acknowledged - expected, key=str):
            raise AssertionError(f"acknowledged in {inbox!r} too: {more}")


@pytest.fixture
def workflow_emulator(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkflowEmulator]:
    """
    A new service, and the connection ``workflow_default`` to it, for the duration of one test.

    State of earlier tests is cleared: tokens, inbox names, rate limits, and which quarantined messages were
    reported.
    """
    clock = ManualClock()
    process_state.reset()
    with EmulatorServer(clock=clock) as server:
        monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_DEFAULT", server.connection_json())
        yield WorkflowEmulator(server, clock)
    process_state.reset()
