"""Assets and lineage: what of an inbox they name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

import pytest
from airflow.providers.standard.utils import openlineage as openlineage_of_airflow
from airflow.providers_manager import ProvidersManager
from airflow.sdk import DAG, Asset
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_workflow.assets import SCHEME, create_asset, sanitize_uri, schedule_of
from airflow_provider_workflow.decorators.workflow_inbox import WorkflowInboxDecoratedOperator
from airflow_provider_workflow.get_provider_info import get_provider_info
from airflow_provider_workflow.observers import lineage
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from tests.unit.test_imports import loaded_by
from tests.unit.test_parse_weight import HEAVY
from tests.unit.workbench import INBOX, Workbench


def sanitized(uri: str) -> str:
    return sanitize_uri(urlsplit(uri)).geturl()


def test_the_asset_of_an_inbox_is_named_by_its_address() -> None:
    asset = create_asset(inbox="orders")

    assert asset.uri == "workflow-inbox://workflow_default/orders"
    assert asset.name == asset.uri
    assert asset.extra == {}


def test_it_may_have_another_connection_a_name_and_whatever_assets_have() -> None:
    asset = create_asset(inbox="a", workflow_conn_id="Shop", name="a", extra={"b": 1}, group="c")

    assert (asset.uri, asset.name, asset.group) == ("workflow-inbox://Shop/a", "a", "c")
    assert asset.extra == {"b": 1}


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


def test_airflow_finds_handler_and_factory() -> None:
    manager = ProvidersManager()

    assert manager.asset_uri_handlers[SCHEME] is sanitize_uri
    assert manager.asset_factories[SCHEME] is create_asset


@pytest.mark.parametrize(
    "written",
    [
        "workflow-inbox://shop/a%20b%2Fc",
        "workflow-inbox://shop/a b%2fc",
        "WORKFLOW-INBOX://shop/%61%20b%2Fc/",
        "workflow-inbox://s%68op/a%20b%2Fc",
    ],
)
def test_airflow_takes_every_way_to_write_an_address_for_the_same_asset(written: str) -> None:
    assert Asset("x", written).uri == "workflow-inbox://shop/a%20b%2Fc"


def test_names_that_differ_in_case_are_different_assets() -> None:
    assert sanitized("workflow-inbox://Shop/Orders") == "workflow-inbox://Shop/Orders"


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40).filter(str.strip)


@given(inbox=NAMES, conn_id=NAMES)
def test_every_name_comes_back_from_its_address(inbox: str, conn_id: str) -> None:
    uri = create_asset(inbox=inbox, workflow_conn_id=conn_id).uri
    parts = urlsplit(uri)

    assert uri.isascii()
    assert (unquote(parts.netloc), unquote(parts.path[1:])) == (conn_id, inbox)
    assert sanitized(uri) == uri
    assert Asset("x", uri).uri == uri


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


def test_an_error_shows_no_password() -> None:
    with pytest.raises(ValueError) as raised:
        sanitize_uri(SplitResult(SCHEME, "user:hush-hush@shop", "/orders", "", ""))

    assert "hush-hush" not in str(raised.value)


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


def test_it_loads_neither_airflow_nor_anything_heavy() -> None:
    (info,) = get_provider_info()["asset-uris"]
    module = info["handler"].rpartition(".")[0]

    assert loaded_by(f"import {module}") & {"airflow", *HEAVY} == set()


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
