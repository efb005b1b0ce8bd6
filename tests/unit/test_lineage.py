"""Lineage: the inbox is the input of a task, and a run facet names the runs; nothing without OpenLineage."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.utils import openlineage as openlineage_of_airflow

from airflow_provider_workflow.decorators.workflow_inbox import WorkflowInboxDecoratedOperator
from airflow_provider_workflow.observers import lineage
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from tests.unit.workbench import INBOX, Workbench

PAYLOAD = "payload-of-a-customer"
RUN = "01968eb2-0000-7000-8000-000000000000"


class Record(SimpleNamespace):
    """A stand-in for a class of OpenLineage: what it was made with."""

    def with_additional_properties(self, **properties: Any) -> Record:
        return Record(**properties)


@pytest.fixture
def openlineage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-ins for what is used of OpenLineage, so that these tests run without it too."""
    facet = "airflow.providers.common.compat.openlineage.facet"
    monkeypatch.setitem(sys.modules, facet, SimpleNamespace(Dataset=Record, RunFacet=Record))  # type: ignore[misc]
    extractors = SimpleNamespace(OperatorLineage=Record)
    monkeypatch.setitem(sys.modules, "airflow.providers.openlineage", SimpleNamespace())  # type: ignore[misc]
    monkeypatch.setitem(sys.modules, "airflow.providers.openlineage.extractors", extractors)  # type: ignore[misc]


def dispatched(bench: Workbench, **options: Any) -> WorkflowInboxDispatchOperator:
    """An operator that has dispatched what the inbox has."""
    given = {"task_id": "dispatch", "inbox": INBOX, "trigger_dag_id": "handle", **options}
    operator = WorkflowInboxDispatchOperator(**given)
    operator.execute(bench.context)  # type: ignore[arg-type]
    return operator


def namespace_of(bench: Workbench) -> str:
    return f"workflow://{bench.service.base_url.partition('://')[2]}"


@pytest.mark.usefixtures("openlineage")
def test_a_dispatch_names_the_inbox_and_the_runs(bench: Workbench) -> None:
    bench.put("a")
    bench.dispatcher().drain()
    bench.put("a", "b")
    found = dispatched(bench).get_openlineage_facets_on_complete(None)

    (inbox,) = found.inputs
    assert (inbox.namespace, inbox.name) == (namespace_of(bench), INBOX)
    assert vars(found.run_facets[lineage.FACET]) == {
        "inboxId": bench.inbox_id,
        "dagIds": ["handle"],
        "started": 1,
        "startedRunIds": [bench.run_id("b")],
        "existing": 1,
        "existingRunIds": [bench.run_id("a")],
    }
    assert set(bench.supervisor.runs) == {("handle", bench.run_id(each)) for each in "ab"}


@pytest.mark.usefixtures("openlineage")
def test_all_routes_are_named(bench: Workbench) -> None:
    bench.supervisor.dags.add("other")
    bench.put("a")
    operator = dispatched(bench, trigger_dag_id={"handle": "`true`", "other": "`false`"})
    facet = operator.get_openlineage_facets_on_complete(None).run_facets[lineage.FACET]
    assert facet.dagIds == ["handle", "other"]


@pytest.mark.usefixtures("openlineage")
def test_an_operator_that_did_nothing_names_the_inbox(bench: Workbench) -> None:
    operator = WorkflowInboxDispatchOperator(task_id="dispatch", inbox=INBOX, trigger_dag_id="handle")
    for _ in range(2):
        found = operator.get_openlineage_facets_on_complete(None)
        assert [each.name for each in found.inputs] == [INBOX]
        assert found.run_facets == {}
        operator.execute(bench.context)  # type: ignore[arg-type]


@pytest.mark.usefixtures("openlineage")
def test_a_sensor_names_the_inbox_and_the_runs(bench: Workbench) -> None:
    bench.put("a")
    sensor = WorkflowInboxSensor(
        task_id="listen", inbox=INBOX, trigger_dag_id="handle", deferrable=False, poll_interval=1
    )
    sensor.execute(bench.context)  # type: ignore[arg-type]
    found = sensor.get_openlineage_facets_on_complete(None)

    assert [each.name for each in found.inputs] == [INBOX]
    assert found.run_facets[lineage.FACET].startedRunIds == [bench.run_id("a")]


@pytest.mark.usefixtures("openlineage")
def test_a_batch_task_names_the_inbox(bench: Workbench) -> None:
    def work(messages: list[Any]) -> None:
        """Nothing."""

    operator = WorkflowInboxDecoratedOperator(task_id="work", python_callable=work, inbox=INBOX)
    found = operator.get_openlineage_facets_on_complete(None)
    assert [each.name for each in found.inputs] == [INBOX]
    assert found.run_facets == {}


@pytest.mark.usefixtures("openlineage")
@pytest.mark.parametrize("strange", ["a\n", "x" * 400])
def test_a_run_whose_id_is_not_known_is_not_named(bench: Workbench, strange: str) -> None:
    bench.put(strange)
    facet = dispatched(bench).get_openlineage_facets_on_complete(None).run_facets[lineage.FACET]

    assert facet.started == 1
    assert facet.startedRunIds == []


def test_without_openlineage_it_cannot_be_imported(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "airflow.providers.openlineage", None)
    monkeypatch.setitem(sys.modules, "airflow.providers.openlineage.extractors", None)
    bench.put("a")
    operator = dispatched(bench)  # is not affected

    assert bench.supervisor.started == ["a"]
    with pytest.raises(ImportError):
        operator.get_openlineage_facets_on_complete(None)


# Started runs


def test_a_started_run_names_its_parent(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    def injected(conf: dict[str, Any], ti: Any) -> dict[str, Any]:
        return {**conf, "openlineage": {"parentJobName": f"{ti.dag_id}.start_runs"}}

    monkeypatch.setattr(
        openlineage_of_airflow, "safe_inject_openlineage_properties_into_dagrun_conf", injected
    )
    bench.put("a")
    bench.dispatcher().drain()

    (conf,) = bench.supervisor.runs.values()
    assert set(conf) == {"connection_id", "inbox_id", "message", "openlineage"}
    assert conf["openlineage"] == {"parentJobName": "listener.start_runs"}
