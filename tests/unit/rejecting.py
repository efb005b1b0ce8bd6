"""A target that rejects messages, beside a dead-letter DAG."""

from __future__ import annotations

from typing import Any

from airflow_provider_workflow.dispatch.dispatcher import Dispatcher
from tests.unit.fakes import api_error
from tests.unit.workbench import Workbench

REJECTED = api_error(400, "value_error", "Invalid input for param message: 'a secret' is too long")


def drained(bench: Workbench, **limits: Any) -> Dispatcher:
    """A dispatcher whose target has started a run before, after it has drained the inbox."""
    dispatcher = bench.ready_dispatcher(lease_limit=100, **limits)
    dispatcher.drain()
    return dispatcher


def redelivered(bench: Workbench) -> None:
    """Let all leases expire."""
    bench.service.store.messages.expire()
