"""Assets and lineage: what of an inbox they name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, Asset

from airflow_provider_workflow.assets import create_asset, schedule_of
from airflow_provider_workflow.decorators.workflow_inbox import WorkflowInboxDecoratedOperator
from airflow_provider_workflow.operators import lineage
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from tests.unit.sensors.tasks import sensor
from tests.unit.workbench import INBOX, Workbench


def test_an_asset_is_named_by_its_address_unless_it_is_given_a_name() -> None:
    asset = create_asset(inbox="orders")
    assert (asset.name, asset.uri, asset.extra) == (asset.uri, "workflow-inbox://workflow_default/orders", {})

    own = create_asset(inbox="a", workflow_conn_id="Shop", name="own", extra={"b": 1}, group="c")
    assert (own.name, own.uri, own.group, own.extra) == ("own", "workflow-inbox://Shop/a", "c", {"b": 1})


def test_before_airflow_3_4_the_schedule_of_an_asset_is_a_list(release: Callable[[int, int], None]) -> None:
    release(3, 3)
    asset = create_asset(inbox="orders")

    assert schedule_of(asset) == [asset]


@pytest.mark.since(3, 4, "asset events that are not batched")
def test_one_run_of_a_schedule_has_all_events_of_its_asset() -> None:
    asset = create_asset(inbox="orders")
    dag = DAG("dispatch_orders", schedule=schedule_of(asset), max_active_runs=1)

    assert dag.timetable.batch_asset_events
    assert dag.timetable.asset_condition == asset


@pytest.mark.parametrize(
    "uri",
    [
        "workflow-inbox:///orders",
        "workflow-inbox://shop",
        "workflow-inbox://shop/a/b",
        "workflow-inbox://shop/a?b=c",
        "workflow-inbox://user@shop/a",
        "workflow-inbox://shop:80/a",
        "workflow-inbox://shop/%FF",
    ],
)
def test_an_address_that_is_none_says_its_form_and_who_writes_it(uri: str) -> None:
    text = r"must have the form workflow-inbox://<connection id>/<inbox>, .*; create_asset\("
    with pytest.raises(ValueError, match=text):
        Asset("x", uri)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"inbox": ""}, "inbox must be a string that is not empty"),
        ({"inbox": "a", "workflow_conn_id": None}, "workflow_conn_id must be a string that is not empty"),
        ({"inbox": "\ud800"}, "inbox cannot be part of a URI: it has a lone surrogate"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}"):
        create_asset(**arguments)


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


def executed_operator(bench: Workbench, **options: Any) -> WorkflowInboxDispatchOperator:
    arguments = {"task_id": "dispatch", "inbox": INBOX, "trigger_dag_id": "handle", **options}
    operator = WorkflowInboxDispatchOperator(**arguments)
    operator.execute(bench.context)  # type: ignore[arg-type]
    return operator


def facets(operator: Any) -> Any:
    return operator.get_openlineage_facets_on_complete(None)


@pytest.mark.usefixtures("openlineage")
@pytest.mark.parametrize("by_sensor", [False, True])
def test_the_inbox_is_the_input_of_its_task_and_a_facet_names_the_runs(
    bench: Workbench, by_sensor: bool
) -> None:
    bench.start_before("a")
    bench.put("a", "b")
    operator: Any = executed_operator(bench) if not by_sensor else sensor(deferrable=False, poll_interval=1)
    if by_sensor:
        operator.execute(bench.context)

    (inbox,) = facets(operator).inputs
    assert inbox.namespace == f"workflow://{bench.service.base_url.partition('://')[2]}"
    assert inbox.name == INBOX
    assert vars(facets(operator).run_facets[lineage.FACET]) == {
        "inboxId": bench.inbox_id,
        "dagIds": ["handle"],
        "started": 1,
        "startedRunIds": [bench.run_id("b")],
        "existing": 1,
        "existingRunIds": [bench.run_id("a")],
    }


@pytest.mark.usefixtures("openlineage")
def test_all_routes_are_named(bench: Workbench) -> None:
    bench.supervisor.dags.add("other")
    bench.put("a")
    operator = executed_operator(bench, trigger_dag_id={"handle": "payload.n", "other": "`true`"})
    assert facets(operator).run_facets[lineage.FACET].dagIds == ["handle", "other"]


@pytest.mark.usefixtures("openlineage")
def test_a_task_that_did_nothing_or_that_works_on_batches_names_the_inbox(bench: Workbench) -> None:
    def work(messages: list[Any]) -> None:
        """Nothing."""

    idle = WorkflowInboxDispatchOperator(task_id="dispatch", inbox=INBOX, trigger_dag_id="handle")
    batches = WorkflowInboxDecoratedOperator(task_id="work", python_callable=work, inbox=INBOX)
    for operator in (idle, executed_operator(bench), batches):
        assert [dataset.name for dataset in facets(operator).inputs] == [INBOX]
        assert facets(operator).run_facets == {}


@pytest.mark.usefixtures("openlineage")
@pytest.mark.parametrize("strange", ["a\n", "x" * 400])
def test_a_run_whose_id_is_not_known_is_not_named(bench: Workbench, strange: str) -> None:
    bench.put(strange)
    facet = facets(executed_operator(bench)).run_facets[lineage.FACET]

    assert (facet.started, facet.startedRunIds) == (1, [])


def test_without_openlineage_a_task_starts_its_runs_and_only_its_lineage_fails(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("airflow.providers.openlineage", "airflow.providers.openlineage.extractors"):
        monkeypatch.setitem(sys.modules, name, None)  # type: ignore[arg-type, unused-ignore]
    bench.put("a")
    operator = executed_operator(bench)

    assert [set(conf) for conf in bench.supervisor.runs.values()] == [
        {"connection_id", "inbox_id", "message"}
    ]
    with pytest.raises(ImportError):
        facets(operator)


def test_a_started_run_names_the_task_that_started_it(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_parent(conf: dict[str, Any], ti: Any) -> dict[str, Any]:
        return {**conf, "openlineage": {"parentJobName": ti.dag_id}}

    # Airflow's own; it names no parent without OpenLineage.
    name = "safe_inject_openlineage_properties_into_dagrun_conf"
    monkeypatch.setattr(f"airflow.providers.standard.utils.openlineage.{name}", with_parent)
    bench.put("a")
    executed_operator(bench)

    [conf] = bench.supervisor.runs.values()
    assert conf["openlineage"] == {"parentJobName": bench.ti.dag_id}
    assert {"connection_id", "inbox_id", "message"} < set(conf)
