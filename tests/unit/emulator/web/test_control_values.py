"""Values that a control route does not accept: a 400 names the field, and nothing changes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_workflow.emulator.checks import checks_of
from airflow_provider_workflow.emulator.clock import ManualClock, SystemClock
from airflow_provider_workflow.emulator.faults import Fault
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.emulator.settings import Settings
from tests.unit.emulator.conftest import Api

ORDERS = {"inbox": "orders"}
DOCUMENT = Path(__file__).parents[4] / "docs" / "emulator.md"
NOT_A_NUMBER = float("nan")


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/messages", {**ORDERS, "payloads": {}}, "payloads"),
        ("/messages", ORDERS, "payloads"),
        ("/messages", {"payloads": []}, "inbox"),
        ("/messages", {"inbox": 7, "payloads": []}, "inbox"),
        ("/messages", {**ORDERS, "payloads": [{}], "ids": [{}]}, "ids"),
        ("/messages", {**ORDERS, "payloads": [{}], "ids": "a"}, "ids"),
        ("/messages", {**ORDERS, "payloads": [{}], "create": "false"}, "create"),
        ("/messages", {**ORDERS, "payloads": [{}], "announce": "false"}, "announce"),
        ("/messages", {**ORDERS, "payloads": [{}], "attributes": []}, "attributes"),
        (
            "/messages",
            {**ORDERS, "payloads": [{}], "attributes": {"lease_count": "2"}},
            "attributes.lease_count",
        ),
        ("/messages", {**ORDERS, "payloads": [{}], "payload": {}}, "payload"),
        ("/messages/attributes", {**ORDERS, "message_id": "x", "attributes": {"id": 1}}, "attributes.id"),
        ("/messages/attributes", {**ORDERS, "message_id": [], "attributes": {}}, "message_id"),
        ("/leases/expire", {"inbox": 1}, "inbox"),
        ("/leases/expire", {"lease": "x"}, "lease"),
        ("/inboxes", {"name": " "}, "name"),
        ("/inboxes", {"name": "x" * 101}, "name"),
        ("/inboxes/state", {**ORDERS, "status": "pause"}, "status"),
        ("/inboxes/state", {**ORDERS, "status": "paused", "paused_reason": 1}, "paused_reason"),
        ("/inboxes/fail-initialization", {"times": 0}, "times"),
        ("/inboxes/fail-initialization", {"name": 1}, "name"),
        ("/tokens", {"scope": "externall"}, "scope"),
        ("/tokens", {"scope": ["external"]}, "scope"),
        ("/tokens", {"grant": "password"}, "grant"),
        ("/tokens/expire", {"token": 1}, "token"),
        ("/clock/advance", {}, "seconds"),
        ("/clock/advance", {"seconds": "1"}, "seconds"),
        ("/clock/advance", {"seconds": True}, "seconds"),
        ("/clock/advance", {"seconds": NOT_A_NUMBER}, "seconds"),
        ("/clock/advance", {"seconds": float("inf")}, "seconds"),
        ("/clock/advance", {"seconds": 10**400}, "seconds"),
        ("/clock/advance", {"seconds": 300e9}, "seconds"),
        ("/clock/advance", {"seconds": -300e9}, "seconds"),
        ("/limits", {"family": "inboxes", "limit": 1}, "family"),
        ("/limits", {"family": "inbox", "limit": "1"}, "limit"),
        ("/limits", {"family": "inbox", "limit": -1}, "limit"),
        ("/limits", {"family": "inbox"}, "limit"),
        ("/limits", {"family": "inbox", "limit": 1, "window_seconds": 0}, "window_seconds"),
        ("/limits", {"family": "inbox", "limit": 1, "window_seconds": NOT_A_NUMBER}, "window_seconds"),
        ("/settings", {"rate_limit": "100"}, "rate_limit"),
        ("/settings", {"page_size": -1}, "page_size"),
        ("/settings", {"page_size": True}, "page_size"),
        ("/settings", {"quarantine_after": 0}, "quarantine_after"),
        ("/settings", {"list_order": "latest"}, "list_order"),
        ("/settings", {"reset_header": "seconds"}, "reset_header"),
        ("/settings", {"acked_stay_listed": "yes"}, "acked_stay_listed"),
        ("/settings", {"token_seconds": NOT_A_NUMBER}, "token_seconds"),
        ("/settings", {"deleting_seconds": -1}, "deleting_seconds"),
        ("/settings", {"client_id": None}, "client_id"),
        ("/settings", {"redirect_uris": "http://a/"}, "redirect_uris"),
        ("/settings", {"redirect_uris": []}, "redirect_uris"),
        ("/settings", {"unknown_app_keys": ["shop@x"]}, "unknown_app_keys"),
        ("/faults", {}, "kind"),
        ("/faults", {"kind": "explode"}, "kind"),
        ("/faults", {"kind": "status", "status": "503"}, "status"),
        ("/faults", {"kind": "status", "status": 100}, "status"),
        ("/faults", {"kind": "status", "status": 600}, "status"),
        ("/faults", {"kind": "status", "headers": {"Retry-After": 3}}, "headers"),
        ("/faults", {"kind": "status", "headers": {"X-Name": "a\r\nSet-Cookie: b"}}, "headers"),
        ("/faults", {"kind": "status", "headers": {"X Name": "a"}}, "headers"),
        ("/faults", {"kind": "status", "headers": {"X-Name": "\u20ac"}}, "headers"),
        ("/faults", {"kind": "status", "content_type": "text/\u20ac"}, "content_type"),
        ("/faults", {"kind": "redirect", "location": "http://a/\n"}, "location"),
        ("/faults", {"kind": "status", "code": 7}, "code"),
        ("/faults", {"kind": "status", "text": 7}, "text"),
        ("/faults", {"kind": "drop", "times": 0}, "times"),
        ("/faults", {"kind": "drop", "after": -1}, "after"),
        ("/faults", {"kind": "drop", "when": "later"}, "when"),
        ("/faults", {"kind": "drop", "path": "("}, "path"),
        ("/faults", {"kind": "drop", "method": 1}, "method"),
        ("/faults", {"kind": "drop", "operation": "leases"}, "operation"),
        ("/faults", {"kind": "slow", "seconds": "1"}, "seconds"),
        ("/faults", {"kind": "slow", "seconds": NOT_A_NUMBER}, "seconds"),
        ("/faults", {"kind": "big", "size": 1.5}, "size"),
        ("/faults", {"kind": "drop", "id": 1}, "id"),
        ("/faults/clear", {"id": "1"}, "id"),
        ("/holds/release", {"drop": 1}, "drop"),
        ("/holds/release", {"id": "x"}, "id"),
        ("/streams/close", {"inbox": []}, "inbox"),
        ("/reset", {"what": "all"}, "what"),
    ],
)
def test_a_wrong_value_is_a_400_that_names_the_field(
    emulator: EmulatorServer, api: Api, path: str, body: dict[str, Any], field: str
) -> None:
    emulator.open_inbox("orders")
    before = emulator.store.settings, emulator.emulator.faults.listing(), emulator.summary("orders")
    response = api("POST", f"/_emulator{path}", data=json.dumps(body))
    assert response.status_code == 400
    (error,) = response.json()["errors"]
    assert (error["source"], error["detail"].split(": ")[0]) == (
        {"pointer": f"/{field.replace('.', '/')}"},
        field,
    )
    assert (emulator.store.settings, emulator.emulator.faults.listing(), emulator.summary("orders")) == before
    assert emulator.store.clock.offset == 0


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("requests?limit=-1", "limit"),
        ("requests?limit=x", "limit"),
        ("requests?operation=leases", "operation"),
        ("requests?count=1", "count"),
        ("inboxes/orders?messages=none", "messages"),
    ],
)
def test_a_wrong_parameter_is_a_400_that_names_it(
    emulator: EmulatorServer, api: Api, query: str, name: str
) -> None:
    emulator.open_inbox("orders")
    response = api("GET", f"/_emulator/{query}")
    assert (response.status_code, response.json()["errors"][0]["detail"].split(": ")[0]) == (400, name)


@pytest.mark.parametrize("settings", [{"quarantine_after": 0}, {"page_size": "x"}, {"token_seconds": -1}])
def test_the_settings_of_a_test_are_checked_as_well(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(settings))}: must be "):
        EmulatorServer(**settings)


@pytest.mark.parametrize("seconds", [NOT_A_NUMBER, float("-inf"), 1e12, -1e12])
def test_no_clock_leaves_the_years_that_a_date_can_have(seconds: float) -> None:
    for clock in (ManualClock(), SystemClock()):
        before = clock.now()
        with pytest.raises(ValueError, match="seconds: must "):
            clock.advance(seconds)
        assert 0 <= clock.now() - before < 60


def test_every_control_route_is_listed_and_documented(api: Api) -> None:
    routes = api("GET", "/_emulator").json()["routes"]
    listed = {
        f"{route['method']} {route['path']}": (set(route["required"]), set(route["optional"]))
        for route in routes
    }
    cell = r"\s*([^|]*?)\s*\|"
    row = rf"^\| `((?:GET|POST) /\S*)` \|{cell}{cell} [A-Z]"
    rows = re.findall(row, DOCUMENT.read_text(), re.MULTILINE)
    documented = {
        route: (set(re.findall(r"`(\w+)`", required)), set(re.findall(r"`(\w+)`", optional)))
        for route, required, optional in rows
    }
    # The page refers to the reference of these two.
    for route, dataclass in (("POST /_emulator/settings", Settings), ("POST /_emulator/faults", Fault)):
        documented[route] = (documented[route][0], set(checks_of(dataclass)) - documented[route][0])
    assert documented == listed
    assert len(rows) == len(routes) == len(listed)
    assert all(route["does"].endswith(".") for route in routes)
