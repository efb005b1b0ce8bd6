"""
A pytest plugin for tests of DAGs that use this provider: it gives each test an emulator of its own.

pytest loads it wherever this package is installed (entry point ``pytest11``), so it imports neither Airflow
nor the emulator before a test requests the fixture.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from airflow_provider_workflow.emulator.server import EmulatorServer


STATE = (
    "client.exchange.GATES",
    "client.exchange._fitting",
    "client.tokens.TOKENS",
    "client.settings._named",
    "inbox_names.NAMES",
    "observers._observers",
    "observers._warned",
    "dispatch.payload_store.last_text",
    "dispatch.quarantine._checked_at",
    "dispatch.quarantine._reported",
    "plugin.service.CACHED_ANSWERS",
)
"""State that outlives a test: collections, caches, and objects that can be created without arguments."""


@pytest.fixture
def workflow_emulator(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatorServer]:
    """
    A new service, and the connection ``workflow_default`` to it, for the duration of one test.

    It is an :class:`~airflow_provider_workflow.emulator.server.EmulatorServer` without inboxes, whose clock
    stands still until the test moves it (``advance``).

    Hooks of other connections of the type Workflow lead to it too. The state of earlier tests is cleared.
    """
    from airflow_provider_workflow.client.settings import settings_of
    from airflow_provider_workflow.emulator.clock import ManualClock
    from airflow_provider_workflow.emulator.server import EmulatorServer
    from airflow_provider_workflow.hooks import workflow

    reset()
    with EmulatorServer(clock=ManualClock()) as server:
        fields = server.connection()
        # The environment may name a broken file of certificates.
        fields["extra"] = json.dumps({**fields["extra"], "verify": False})
        emulated = SimpleNamespace(**fields, schema=None, port=None)
        monkeypatch.setattr(workflow, "settings_of", lambda _, conn_id: settings_of(emulated, conn_id))
        monkeypatch.setenv(f"AIRFLOW_CONN_{workflow.DEFAULT_CONN_ID.upper()}", server.connection_json())
        for name in ("no_proxy", "NO_PROXY"):
            # Other hooks may need their proxies. A list with "*" and more excludes nothing.
            if os.environ.get(name) != "*":
                monkeypatch.setenv(name, ",".join(filter(None, (os.environ.get(name), server.host))))
        yield server
    reset()


def reset() -> None:
    """
    Clear the state of the process: tokens, rate limits, inbox names, reported messages.

    No call of the service may be in progress. A module that is not loaded has no state.
    """
    for path in STATE:
        module_name, _, attribute = path.rpartition(".")
        if (module := sys.modules.get(f"{__package__}.{module_name}")) is None:
            continue
        # Emptied in place, as other modules hold references to it.
        value = getattr(module, attribute)
        if clear := getattr(value, "cache_clear", None) or getattr(value, "clear", None):
            clear()
        else:
            vars(value).update(vars(type(value)()))
