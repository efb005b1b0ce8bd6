"""What clients may send."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_workflow.emulator.rules.errors import (
    InboxBody,
    Subscription,
    UpdateBody,
    invalid_value,
    resolve_app_key,
)

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
    assert resolve_app_key(given) == resolved


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
    with pytest.raises(ValueError) as refusal:
        InboxBody.model_validate({"subscription": value})
    (error,) = invalid_value(refusal.value).body["errors"]
    assert (error["status"], error["source"]) == (400, {"pointer": pointer})
    assert pointer[1:].replace("/", ".") in error["detail"]


@pytest.mark.parametrize("connection_id", [None, 12, "0b7e6f3a-6f0e-4f8e-9a51-0d6a6c1b2f10"])
def test_a_connection_id_is_a_uuid_a_number_or_null(connection_id: Any) -> None:
    given = {"app_key": "Shop@2.1.0", "action_key": "order", "inputs": {}, "connection_id": connection_id}
    assert Subscription.model_validate(given).model_dump() == given


@pytest.mark.parametrize("url", ["ftp://x/", 7, "http://", "http://[", "http://x/" + "a" * 2048])
def test_a_notification_url_has_to_be_one(url: Any) -> None:
    with pytest.raises(ValueError, match="notification_url"):
        UpdateBody(notification_url=url)


@pytest.mark.parametrize("url", ["http://x", "https://a.test:1/b?c", "http://[::1]:8/x", None])
def test_http_addresses_are_notification_urls(url: str | None) -> None:
    assert UpdateBody(notification_url=url).notification_url == url


@pytest.mark.parametrize("name", [" ", "x" * 101, 5])
@pytest.mark.parametrize("field", ["name", "key"])
def test_a_bad_name_is_refused(field: str, name: Any) -> None:
    with pytest.raises(ValueError, match=field):
        InboxBody.model_validate({field: name, "subscription": {**SHOP, "inputs": {}}})
