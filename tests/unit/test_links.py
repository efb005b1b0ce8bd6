"""Links lead to the editor of a guess, and to the DAG runs that messages started."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import GetXCom, XComResult
from airflow.sdk.execution_time.xcom import XCom

from airflow_provider_workflow.dispatch.runs import run_id_of
from airflow_provider_workflow.links import ReplayedRunLink, StartedRunsLink, WorkflowEditorLink

START = datetime(2026, 1, 1, 12, 0, 10, tzinfo=UTC)
TI = SimpleNamespace(dag_id="d", task_id="t", run_id="r", map_index=-1, start_date=START, state="success")


@dataclass
class Returned:
    """A supervisor that knows what the task has returned."""

    value: Any = None
    requests: int = 0

    def send(self, message: Any) -> XComResult:
        assert isinstance(message, GetXCom)
        assert (message.dag_id, message.task_id, message.run_id) == ("d", "t", "r")
        assert message.key == "return_value"
        self.requests += 1
        return XComResult(
            key=message.key, value=None if self.value is None else XCom.serialize_value(self.value)
        )


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Returned:
    """A task that has not returned anything yet, of an Airflow with an address of its own."""
    fake = Returned()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", fake, raising=False)
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.com/under/")
    return fake


def operator(target: Any = "handle", do_xcom_push: bool = True) -> Any:
    return SimpleNamespace(trigger_dag_id=target, do_xcom_push=do_xcom_push)


def started_runs(of: Any = None) -> tuple[str, dict[str, list[str]]]:
    parts = urlsplit(StartedRunsLink().get_link(of or operator(), ti_key=TI))
    assert (parts.scheme, parts.netloc) == ("https", "airflow.example.com")
    return parts.path, parse_qs(parts.query)


def test_one_started_run_is_linked_as_a_list_of_it(task: Returned) -> None:
    nothing = {"count": 0, "ids": []}
    started = {"count": 1, "ids": ["m:1+a"]}
    task.value = {"inbox_id": "an-inbox", "started": started, "existing": nothing, "rejected": nothing}

    run_id = run_id_of("m:1+a", "an-inbox")
    assert started_runs() == ("/under/dags/handle/runs", {"run_id_pattern": [run_id]})


def test_a_task_that_returns_messages_has_no_link(task: Returned) -> None:
    task.value = [{"id": "a"}]

    assert StartedRunsLink().get_link(operator(None), ti_key=TI) == ""


@pytest.mark.parametrize("state", ["deferred", "failed"])
def test_what_a_task_returned_is_not_read_unless_it_succeeded(task: Returned, state: str) -> None:
    """Airflow logs an ERROR where an XCom that is read is not there."""
    ti = SimpleNamespace(**{**vars(TI), "state": state})

    WorkflowEditorLink().get_link(operator(), ti_key=ti)
    StartedRunsLink().get_link(operator(), ti_key=ti)
    assert task.requests == 0


@pytest.mark.parametrize("do_xcom_push", [True, False])
def test_a_task_that_returned_nothing_is_linked_as_a_list_of_that_time(
    task: Returned, do_xcom_push: bool
) -> None:
    """One that failed at its end may have started runs before."""
    path, query = started_runs(operator(do_xcom_push=do_xcom_push))

    assert path == "/under/dags/handle/runs"
    assert query["run_id_pattern"] == ["workflow__"]
    assert "run_after_gte" in query


def test_a_replay_that_failed_has_no_link(task: Returned) -> None:
    assert ReplayedRunLink().get_link(operator(None), ti_key=TI) == ""
