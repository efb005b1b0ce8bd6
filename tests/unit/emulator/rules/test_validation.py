"""What clients may send."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_workflow.emulator.rules import errors
from airflow_provider_workflow.emulator.rules.errors import ServiceError

SHOP = {"app_key": "shop", "action_key": "order"}


@pytest.mark.parametrize(
    ("given", "resolved"),
    [
        ("Shop@2.1.0", "Shop@2.1.0"),
        ("ShopAPI", "ShopAPI@1.0.0"),
        ("ShopAPI@latest", "ShopAPI@1.0.0"),
        ("my-shop", "MyShopAPI@1.0.0"),
    ],
)
def test_an_app_key_is_resolved_to_its_versioned_form(given: str, resolved: str) -> None:
    assert errors.resolve_app_key(given) == resolved


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        (None, "/subscription"),
        ({"action_key": "order"}, "/subscription/app_key"),
        ({"app_key": "shop"}, "/subscription/action_key"),
        ({"app_key": "shop@x", "action_key": "order"}, "/subscription/app_key"),
        (SHOP, "/subscription/inputs"),
        ({**SHOP, "inputs": []}, "/subscription/inputs"),
        ({**SHOP, "inputs": {}, "connection_id": "x"}, "/subscription/connection_id"),
        ({**SHOP, "inputs": {}, "connection_id": True}, "/subscription/connection_id"),
    ],
)
def test_a_bad_subscription_is_refused_by_the_name_of_its_field(value: Any, pointer: str) -> None:
    with pytest.raises(ServiceError) as refusal:
        errors.subscription({"subscription": value})
    (error,) = refusal.value.body["errors"]
    assert (error["status"], error["source"]) == (400, {"pointer": pointer})
    assert pointer[1:].replace("/", ".") in error["detail"]


@pytest.mark.parametrize(
    ("unknown", "app_key"),
    [("shop", "shop"), ("shop", "ShopAPI@2.1.0"), ("ShopAPI@2.1.0", "ShopAPI@2.1.0")],
)
def test_an_app_that_the_settings_call_unknown_is_rejected(unknown: str, app_key: str) -> None:
    given = {"subscription": {**SHOP, "app_key": app_key, "inputs": {}}}
    with pytest.raises(ServiceError) as refusal:
        errors.subscription(given, unknown_app_keys=["other", unknown])
    (error,) = refusal.value.body["errors"]
    assert (error["status"], error["source"]) == (400, {"pointer": "/subscription/app_key"})


def test_other_apps_and_other_versions_are_known() -> None:
    given = {"subscription": {**SHOP, "inputs": {}}}
    known = errors.subscription(given, unknown_app_keys=["shopping", "ShopAPI@2.1.0", "Shop"])
    assert known["app_key"] == "ShopAPI@1.0.0"


@pytest.mark.parametrize("connection_id", [None, 12, "0b7e6f3a-6f0e-4f8e-9a51-0d6a6c1b2f10"])
def test_a_connection_id_is_a_uuid_a_number_or_null(connection_id: Any) -> None:
    given = {"app_key": "Shop@2.1.0", "action_key": "order", "inputs": {}, "connection_id": connection_id}
    assert errors.subscription({"subscription": given}) == given


@pytest.mark.parametrize("url", ["ftp://x/", 7, "http://", "http://[", "http://x/" + "a" * 2048])
def test_a_notification_url_has_to_be_one(url: Any) -> None:
    with pytest.raises(ServiceError, match="notification_url"):
        errors.notification_url({"notification_url": url})


def test_a_name_may_come_as_key() -> None:
    assert errors.inbox_name({"key": "orders"}, required=True) == "orders"
    assert errors.inbox_name({"name": "orders", "key": "orders"}, required=True) == "orders"
    assert errors.inbox_name({"name": None, "key": "orders"}, required=True) == "orders"
    assert errors.inbox_name({}, required=False) is None


@pytest.mark.parametrize(
    "body",
    [{}, {"name": " "}, {"name": "x" * 101}, {"name": 5}, {"name": "orders", "key": "invoices"}],
)
def test_a_bad_name_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(ServiceError, match="name"):
        errors.inbox_name(body, required=True)
