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


def result(*ids: str) -> dict[str, Any]:
    none = {"count": 0, "ids": []}
    return {"started": {"count": len(ids), "ids": list(ids)}, "existing": none, "rejected": none}


def started_runs(of: Any) -> tuple[str, dict[str, list[str]]]:
    """Path and query of the link."""
    parts = urlsplit(StartedRunsLink().get_link(of, ti_key=TI))
    assert (parts.scheme, parts.netloc) == ("https", "airflow.example.com")
    return parts.path, parse_qs(parts.query)


def test_the_editor_link_is_the_address_of_the_guess_or_there_is_none(task: Returned) -> None:
    task.value = {"title": "x", "prefilled_url": "https://editor.example.com/?step=a"}
    link = WorkflowEditorLink().get_link(operator(), ti_key=TI)
    assert link == "https://editor.example.com/?step=a"

    for task.value in (None, {"prefilled_url": "javascript:alert(1)"}, []):
        assert WorkflowEditorLink().get_link(operator(), ti_key=TI) == ""


@pytest.mark.parametrize("returned", [result("a"), None], ids=["a success", "a task that failed at its end"])
@pytest.mark.parametrize(
    ("targets", "page"),
    [
        ("handle", "/under/dags/handle/runs"),
        ({"first": "payload.x"}, "/under/dags/first/runs"),
        ({"first": "payload.x", "second": "payload"}, "/under/dag_runs"),
    ],
)
def test_started_runs_are_linked_as_a_list_of_that_time(
    task: Returned, targets: Any, page: str, returned: Any
) -> None:
    task.value = returned
    path, query = started_runs(operator(targets))

    assert path == page
    assert query["run_id_pattern"] == ["workflow__"]
    assert query["run_after_gte"] == ["2026-01-01T12:00:05Z"]
    assert datetime.fromisoformat(query["run_after_lte"][0]) >= datetime.now(UTC)


@pytest.mark.parametrize(("target", "returned"), [("handle", result()), (None, [{"id": "a"}])])
def test_where_nothing_was_started_there_is_no_link(task: Returned, target: Any, returned: Any) -> None:
    task.value = returned

    assert StartedRunsLink().get_link(operator(target), ti_key=TI) == ""


@pytest.mark.parametrize(("state", "is_pushed"), [("deferred", True), ("failed", True), ("success", False)])
def test_what_a_task_did_not_return_is_not_read(task: Returned, state: str, is_pushed: bool) -> None:
    """Airflow logs an ERROR where an XCom that is read is not there."""
    ti = SimpleNamespace(**{**vars(TI), "state": state})

    StartedRunsLink().get_link(operator(do_xcom_push=is_pushed), ti_key=ti)
    assert task.requests == 0


def test_without_an_address_the_link_is_a_path(task: Returned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW__API__BASE_URL")
    task.value = result("a")

    link = StartedRunsLink().get_link(operator(), ti_key=TI)
    assert link.startswith("/dags/handle/runs?run_id_pattern=workflow__&")


def test_the_link_of_a_replay_is_the_page_of_its_run(task: Returned) -> None:
    assert ReplayedRunLink().get_link(operator(None), ti_key=TI) == "", "it failed"
    task.value = {"dag_id": "handle", "run_id": "workflow__a~+__0", "outcome": "existing"}

    link = ReplayedRunLink().get_link(operator(None), ti_key=TI)

    assert link == "https://airflow.example.com/under/dags/handle/runs/workflow__a~%2B__0"
