"""
A pytest plugin for tests of DAGs that use this provider: it gives each test an emulator of its own.

pytest loads it wherever this package is installed (entry point ``pytest11``), so it imports neither Airflow
nor the emulator before a test requests the fixture. The entry point has the name of this module: then
``pytest_plugins = ["airflow_provider_workflow.pytest_plugin"]`` in a conftest file means the same plugin.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from airflow_provider_workflow.client.settings import Settings
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

    The test reaches nothing but this service: other connections of the type Workflow are refused, secrets
    backends are off, and the options of ``[workflow]`` have their defaults.

    State of earlier tests is cleared: tokens, inbox names, rate limits, and which quarantined messages were
    reported.
    """
    from airflow_provider_workflow import process_state
    from airflow_provider_workflow.emulator.clock import ManualClock
    from airflow_provider_workflow.emulator.server import EmulatorServer

    clock = ManualClock()
    process_state.reset()
    with EmulatorServer(clock=clock) as server:
        _isolate(server, monkeypatch)
        yield WorkflowEmulator(server, clock)
    process_state.reset()


_BACKENDS = ("AIRFLOW__SECRETS__BACKEND", "AIRFLOW__WORKERS__SECRETS_BACKEND")
_NO_PROXY = ("no_proxy", "NO_PROXY")


def _isolate(server: EmulatorServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Let the test reach nothing but the emulator, whatever the environment and Airflow's configuration say.

    Secrets backends, which Airflow asks before the environment, are off. Other hooks may need proxies, so
    only the emulator's host is reached without one.
    """
    from airflow_provider_workflow import config
    from airflow_provider_workflow.hooks import workflow

    without_proxy = next(filter(None, map(os.environ.get, _NO_PROXY)), "")
    if without_proxy != "*":
        without_proxy = f"{without_proxy},{server.host}".lstrip(",")
    connection = server.connection()
    connection["extra"]["verify"] = (
        False  # without TLS; the environment may name a broken file of certificates
    )
    options = {name: option["default"] for name, option in config.OPTIONS.items()}
    variables = {
        _variable(workflow.DEFAULT_CONN_ID): json.dumps(connection),
        **dict.fromkeys(_NO_PROXY, without_proxy),
        **dict.fromkeys(_BACKENDS, ""),
        **{f"AIRFLOW__{config.SECTION}__{name}".upper(): value for name, value in options.items()},
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(workflow, "settings_of", _settings_of_emulator(server, workflow.settings_of))


def _variable(conn_id: str) -> str:
    return f"AIRFLOW_CONN_{conn_id.upper()}"


def _settings_of_emulator(
    server: EmulatorServer, settings_of: Callable[[Any, Any, str], Settings]
) -> Callable[[Any, Any, str], Settings]:
    """``settings_of`` for connections of the environment, and of those only for the ones to the emulator."""
    from airflow.secrets.environment_variables import EnvironmentVariablesBackend

    from airflow_provider_workflow.client.errors import ConfigurationError
    from airflow_provider_workflow.client.settings import host_of

    def settings(connection: Any, extra: Any, conn_id: str) -> Settings:
        # Airflow may still have a secrets backend from before the test.
        own = EnvironmentVariablesBackend().get_connection(conn_id)
        found = settings_of(own or connection, own.extra_dejson if own else extra, conn_id)
        for host in map(host_of, (found.base_url, found.token_url)):
            if host != host_of(server.base_url):
                problem = (
                    f"{conn_id} leads to {host}, and a test with workflow_emulator reaches only the emulator"
                    f" (set {_variable(conn_id)} to workflow_emulator.server.connection_json())"
                )
                raise ConfigurationError([problem])
        return found

    return settings
