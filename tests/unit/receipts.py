"""A receiver of the inbox, its task and its store."""

from __future__ import annotations

from airflow_provider_workflow.dispatch.receiving import Receiver
from airflow_provider_workflow.dispatch.routing import Routes
from tests.unit.fakes import StateStore
from tests.unit.workbench import INBOX, Workbench


class Receipt:
    """A receiver of the inbox, its store, and its task."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.store = StateStore()
        self.context = {"ti": bench.ti, "task_state_store": self.store}

    def __call__(self, match: str | None = None) -> Receiver:
        return Receiver(self.bench.hook, INBOX, Routes(None, match), self.context)
