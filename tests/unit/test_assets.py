"""The address of an inbox as an asset: one way to write each, and errors that name the fix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

import pytest
from airflow.providers_manager import ProvidersManager
from airflow.sdk import DAG, Asset
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_workflow.assets import SCHEME, create_asset, sanitize_uri, schedule_of
from airflow_provider_workflow.get_provider_info import get_provider_info
from tests.unit.test_imports import loaded_by
from tests.unit.test_parse_weight import HEAVY


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
