"""Values that a control route does not accept: a 400 names the field, and nothing changes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_workflow.emulator.clock import Clock, ManualClock
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.emulator.web.control_routes import OPERATIONS
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
        ("/messages", {**ORDERS, "payloads": [{}], "attributes": []}, "attributes"),
        (
            "/messages",
            {**ORDERS, "payloads": [{}], "attributes": {"lease_count": "2"}},
            "attributes.lease_count",
        ),
        ("/messages", {**ORDERS, "payloads": [{}], "payload": {}}, "payload"),
        ("/leases/expire", {"inbox": 1}, "inbox"),
        ("/leases/expire", {"lease": "x"}, "lease"),
        ("/inboxes/state", {**ORDERS, "status": "pause"}, "status"),
        ("/inboxes/state", {**ORDERS, "status": "paused", "paused_reason": 1}, "paused_reason"),
        ("/tokens/expire", {"token": 1}, "token"),
        ("/clock/advance", {}, "seconds"),
        ("/clock/advance", {"seconds": "1"}, "seconds"),
        ("/clock/advance", {"seconds": True}, "seconds"),
        ("/clock/advance", {"seconds": NOT_A_NUMBER}, "seconds"),
        ("/clock/advance", {"seconds": float("inf")}, "seconds"),
        ("/clock/advance", {"seconds": 10**400}, "seconds"),
        ("/clock/advance", {"seconds": 300e9}, "seconds"),
        ("/clock/advance", {"seconds": -300e9}, "seconds"),
        ("/settings", {"rate_limit": "100"}, "rate_limit"),
        ("/settings", {"rate_limit": -1}, "rate_limit"),
        ("/settings", {"rate_window_seconds": 0}, "rate_window_seconds"),
        ("/settings", {"page_size": -1}, "page_size"),
        ("/settings", {"page_size": True}, "page_size"),
        ("/settings", {"quarantine_after": 0}, "quarantine_after"),
        ("/settings", {"list_order": "latest"}, "list_order"),
        ("/settings", {"reset_header": "seconds"}, "reset_header"),
        ("/settings", {"token_seconds": NOT_A_NUMBER}, "token_seconds"),
        ("/settings", {"deleting_seconds": -1}, "deleting_seconds"),
        ("/settings", {"client_id": None}, "client_id"),
        ("/settings", {"redirect_uris": "http://a/"}, "redirect_uris"),
        ("/settings", {"redirect_uris": []}, "redirect_uris"),
        ("/faults", {}, "kind"),
        ("/faults", {"kind": "explode"}, "kind"),
        ("/faults", {"kind": "status", "status": "503"}, "status"),
        ("/faults", {"kind": "status", "status": 100}, "status"),
        ("/faults", {"kind": "status", "status": 600}, "status"),
        ("/faults", {"kind": "status", "headers": {"Retry-After": 3}}, "headers.Retry-After"),
        ("/faults", {"kind": "status", "headers": {"X-Name": "a\r\nSet-Cookie: b"}}, "headers.X-Name"),
        ("/faults", {"kind": "status", "headers": {"X Name": "a"}}, "headers.X Name.[key]"),
        ("/faults", {"kind": "status", "headers": {"X-Name": "\u20ac"}}, "headers.X-Name"),
        ("/faults", {"kind": "status", "content_type": "text/\u20ac"}, "content_type"),
        ("/faults", {"kind": "status", "code": 7}, "code"),
        ("/faults", {"kind": "status", "text": 7}, "text"),
        ("/faults", {"kind": "drop", "times": 0}, "times"),
        ("/faults", {"kind": "drop", "after": -1}, "after"),
        ("/faults", {"kind": "drop", "when": "later"}, "when"),
        ("/faults", {"kind": "drop", "path": "("}, "path"),
        ("/faults", {"kind": "drop", "operation": "leases"}, "operation"),
        ("/faults", {"kind": "slow", "seconds": "1"}, "seconds"),
        ("/faults", {"kind": "slow", "seconds": NOT_A_NUMBER}, "seconds"),
        ("/faults", {"kind": "drop", "id": 1}, "id"),
        ("/reset", {"what": "all"}, "what"),
    ],
)
def test_a_wrong_value_is_a_400_that_names_the_field(
    emulator: EmulatorServer, api: Api, path: str, body: dict[str, Any], field: str
) -> None:
    emulator.open_inbox("orders")
    before = emulator.store.settings, emulator.emulator.faults.rules, emulator.summary("orders")
    response = api("POST", f"/_emulator{path}", data=json.dumps(body))
    assert response.status_code == 400
    (error,) = response.json()["errors"]
    assert (error["source"], error["detail"].split(": ")[0]) == (
        {"pointer": f"/{field.replace('.', '/')}"},
        field,
    )
    assert (emulator.store.settings, emulator.emulator.faults.rules, emulator.summary("orders")) == before
    assert emulator.store.clock.offset == 0


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("requests?limit=-1", "limit"),
        ("requests?limit=x", "limit"),
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
    with pytest.raises(ValueError, match=next(iter(settings))):
        EmulatorServer(**settings)


@pytest.mark.parametrize("seconds", [NOT_A_NUMBER, float("-inf"), 1e12, -1e12])
def test_no_clock_leaves_the_years_that_a_date_can_have(seconds: float) -> None:
    for clock in (ManualClock(), Clock()):
        before = clock.now()
        with pytest.raises(ValueError, match="seconds: must "):
            clock.advance(seconds)
        assert 0 <= clock.now() - before < 60


def test_every_control_route_is_documented() -> None:
    rows = re.findall(r"^\| `((?:GET|POST) /_emulator\S*)` \|", DOCUMENT.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(f"{control.method} {control.path}" for control in OPERATIONS)
