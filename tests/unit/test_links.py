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

INBOX = "an-inbox"
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


def operator(target: Any = "handle", do_xcom_push: bool = True, once_per: str | None = None) -> Any:
    return SimpleNamespace(trigger_dag_id=target, do_xcom_push=do_xcom_push, once_per=once_per)


def result(*ids: str, count: int | None = None) -> dict[str, Any]:
    nothing = {"count": 0, "ids": []}
    started = {"count": len(ids) if count is None else count, "ids": list(ids)}
    return {"inbox_id": INBOX, "started": started, "existing": nothing, "rejected": nothing}


def run_id(message_id: str) -> str:
    return run_id_of(message_id, INBOX)


def started_runs(of: Any = None) -> tuple[str, dict[str, list[str]]]:
    """Path and query of the link."""
    parts = urlsplit(StartedRunsLink().get_link(of or operator(), ti_key=TI))
    assert (parts.scheme, parts.netloc) == ("https", "airflow.example.com")
    return parts.path, parse_qs(parts.query)


def test_the_editor_link_is_the_address_of_the_guess(task: Returned) -> None:
    task.value = {"title": "x", "prefilled_url": "https://editor.example.com/?step=a"}

    link = WorkflowEditorLink().get_link(operator(), ti_key=TI)
    assert link == "https://editor.example.com/?step=a"


@pytest.mark.parametrize("value", [None, {"title": "x"}, {"prefilled_url": "javascript:alert(1)"}, []])
def test_without_a_web_address_there_is_no_editor_link(task: Returned, value: Any) -> None:
    task.value = value

    assert WorkflowEditorLink().get_link(operator(), ti_key=TI) == ""


def test_one_started_run_is_linked_as_a_list_of_it(task: Returned) -> None:
    task.value = result("m:1+a")

    assert started_runs() == ("/under/dags/handle/runs", {"run_id_pattern": [run_id("m:1+a")]})


def test_several_started_runs_are_linked_as_a_list_of_them(task: Returned) -> None:
    task.value = result("a", "b")

    assert started_runs() == ("/under/dags/handle/runs", {"run_id_pattern": [f"{run_id('a')}|{run_id('b')}"]})


@pytest.mark.parametrize("count", [20, 100])
def test_more_runs_than_an_address_can_name_are_linked_as_a_list_of_that_time(
    task: Returned, count: int
) -> None:
    task.value = result(*[f"{n:050}" for n in range(count)])
    path, query = started_runs()

    assert path == "/under/dags/handle/runs"
    assert query["run_id_pattern"] == ["workflow__"]
    assert query["run_after_gte"] == ["2026-01-01T12:00:05Z"]
    assert datetime.fromisoformat(query["run_after_lte"][0]) >= datetime.now(UTC)


def test_runs_with_the_ids_of_business_keys_are_linked_as_a_list_of_that_time(task: Returned) -> None:
    task.value = result("a")
    path, query = started_runs(operator(once_per="payload.order_id"))

    assert (path, query["run_id_pattern"]) == ("/under/dags/handle/runs", ["workflow__"])
    assert "run_after_gte" in query


def test_more_runs_than_ids_are_linked_as_a_list_of_that_time(task: Returned) -> None:
    task.value = result(*[str(n) for n in range(100)], count=500)
    path, query = started_runs()

    assert path == "/under/dags/handle/runs"
    assert query["run_id_pattern"] == ["workflow__"]


def test_runs_of_several_dags_are_linked_as_a_list_over_all_dags(task: Returned) -> None:
    task.value = result("a", "b")
    path, query = started_runs(operator({"first": "payload.x", "second": "payload"}))

    assert path == "/under/dag_runs"
    assert query["run_id_pattern"] == [f"{run_id('a')}|{run_id('b')}"]


def test_one_run_of_one_of_several_dags_is_linked_by_its_id(task: Returned) -> None:
    task.value = result("a")

    assert started_runs(operator({"first": "payload.x", "second": "payload"})) == (
        "/under/dag_runs",
        {"run_id_pattern": [run_id("a")]},
    )


def test_one_dag_with_an_expression_is_that_dag(task: Returned) -> None:
    task.value = result("a", "b")

    assert started_runs(operator({"first": "payload.x"}))[0] == "/under/dags/first/runs"


def test_where_nothing_was_started_there_is_no_link(task: Returned) -> None:
    task.value = result()

    assert StartedRunsLink().get_link(operator(), ti_key=TI) == ""


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


def test_without_an_address_of_airflow_the_link_is_a_path(
    task: Returned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW__API__BASE_URL")
    task.value = result("a")

    link = StartedRunsLink().get_link(operator(), ti_key=TI)
    assert link == f"/dags/handle/runs?run_id_pattern={run_id('a')}"


def test_the_link_of_a_replay_is_the_page_of_its_run(task: Returned) -> None:
    task.value = {"dag_id": "handle", "run_id": "workflow__a~+__0", "outcome": "existing"}

    link = ReplayedRunLink().get_link(operator(None), ti_key=TI)

    assert link == "https://airflow.example.com/under/dags/handle/runs/workflow__a~%2B__0"


def test_a_replay_that_failed_has_no_link(task: Returned) -> None:
    assert ReplayedRunLink().get_link(operator(None), ti_key=TI) == ""
