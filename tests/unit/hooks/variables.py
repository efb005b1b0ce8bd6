"""Airflow Variables in memory, for the tokens of users."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import ErrorResponse, GetVariable, PutVariable, VariableResult


class Variables:
    """The supervisor of a task, which keeps variables."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.asked: list[Any] = []
        self.fault: Exception | None = None

    def send(self, message: Any) -> Any:
        if not isinstance(message, (GetVariable, PutVariable)):
            return None  # secrets that are to be masked
        self.asked.append(message)
        if self.fault is not None:
            raise self.fault
        if isinstance(message, PutVariable):
            self.values[message.key] = str(message.value)
            return None
        if message.key in self.values:
            return VariableResult(key=message.key, value=self.values[message.key])
        return ErrorResponse()


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> Variables:
    """Airflow's variables, as a task reaches them."""
    fake = Variables()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", fake, raising=False)
    # As in a task; a process that may use the database asks it instead.
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "client")
    return fake
