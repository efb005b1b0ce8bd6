"""The control routes of the emulator: state, faults and held requests."""

from __future__ import annotations

import json
import re
import socket
import time
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.emulator.web.control_routes import OPERATIONS
from tests.unit.documents import PAGES
from tests.unit.emulator.conftest import Api


@pytest.fixture
def lease_path(emulator: EmulatorServer) -> str:
    """Where to lease from an inbox that holds two messages."""
    emulator.put("orders", {"n": 1}, {"n": 2})
    return f"/inboxes/{emulator.open_inbox('orders')}/messages/lease"


def test_messages_are_put_by_name_or_id_and_an_inbox_is_made_on_demand(api: Api) -> None:
    answer = api.control("/messages", inbox="orders", create=True, payloads=[{"n": 1}, {"n": 2}])
    assert (len(answer["ids"]), answer["dropped"], answer["note"]) == (2, 0, None)
    inbox_id = api("GET", "/inboxes", params={"name": "orders"}).json()["results"][0]["id"]
    api.control("/messages", inbox=inbox_id, payloads=[{}], ids=["x"], attributes={"error_message": "e"})
    assert api("POST", "/_emulator/messages", {"inbox": "nobody", "payloads": []}).status_code == 404
    summary = api("GET", "/_emulator/inboxes/orders").json()
    assert summary["counts"] == {"available": 3, "leased": 0, "acked": 0, "quarantined": 0}
    assert summary["messages"][-1]["error_message"] == "e"


def test_clock_leases_and_tokens_obey(emulator: EmulatorServer, api: Api) -> None:
    emulator.put("orders", {}, attributes={"lease_count": 2})
    path = f"/inboxes/{emulator.open_inbox('orders')}/messages"
    api("POST", f"{path}/lease", {"lease_seconds": 60})
    before = emulator.store.clock.now()
    assert api.control("/clock/advance", seconds=60)["now"] == before + 60
    lease = api("POST", f"{path}/lease").json()
    assert lease["results"][0]["message_attributes"]["lease_count"] == 4
    assert api.control("/leases/expire", inbox="orders", lease_id=lease["lease_id"])["expired"] == 1
    assert api.control("/leases/expire")["expired"] == 0
    assert api.control("/tokens/expire")["expired"] == 1
    assert api("GET", "/inboxes").json()["errors"][0]["code"] == "unauthenticated"


ORDERS = {"inbox": "orders"}
NOT_A_NUMBER = float("nan")


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/messages", {**ORDERS, "payloads": {}}, "payloads"),
        ("/messages", {"payloads": []}, "inbox"),
        ("/messages", {**ORDERS, "payloads": [{}], "ids": [{}]}, "ids"),
        (
            "/messages",
            {**ORDERS, "payloads": [{}], "attributes": {"lease_count": "2"}},
            "attributes.lease_count",
        ),
        ("/messages", {**ORDERS, "payloads": [{}], "payload": {}}, "payload"),
        ("/leases/expire", {"inbox": 1}, "inbox"),
        ("/inboxes/state", {**ORDERS, "status": "pause"}, "status"),
        ("/clock/advance", {"seconds": "1"}, "seconds"),
        ("/clock/advance", {"seconds": 10**400}, "seconds"),
        ("/clock/advance", {"seconds": 300e9}, "seconds"),
        ("/clock/advance", {"seconds": -1e12}, "seconds"),
        ("/clock/advance", {"seconds": NOT_A_NUMBER}, "seconds"),
        ("/settings", {"color": "blue"}, "color"),
        ("/settings", {"rate_limit": -1}, "rate_limit"),
        ("/settings", {"page_size": True}, "page_size"),
        ("/settings", {"list_order": "latest"}, "list_order"),
        ("/settings", {"token_seconds": NOT_A_NUMBER}, "token_seconds"),
        ("/settings", {"redirect_uris": []}, "redirect_uris"),
        ("/faults", {}, "kind"),
        ("/faults", {"kind": "explode"}, "kind"),
        ("/faults", {"kind": "status", "status": 600}, "status"),
        ("/faults", {"kind": "status", "headers": {"X-Name": "a\r\nSet-Cookie: b"}}, "headers.X-Name"),
        ("/faults", {"kind": "status", "headers": {"content-LENGTH": "7"}}, "headers.content-LENGTH"),
        ("/faults", {"kind": "status", "headers": {"Transfer-Encoding": "x"}}, "headers.Transfer-Encoding"),
        ("/faults", {"kind": "status", "content_type": "text/\u20ac"}, "content_type"),
        ("/faults", {"kind": "drop", "times": 0}, "times"),
        ("/faults", {"kind": "drop", "path": "("}, "path"),
        ("/faults", {"kind": "drop", "operation": "leases"}, "operation"),
        ("/faults", {"kind": "drop", "id": 1}, "id"),
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


def test_a_request_that_is_held_has_its_effect_though_its_client_has_left(
    emulator: EmulatorServer, api: Api
) -> None:
    emulator.fault("hold", operation="list_inboxes")
    with pytest.raises(requests.ReadTimeout):
        api.session.get(f"{emulator.base_url}/trigger-inbox/v1/inboxes", timeout=0.2)
    emulator.wait_until_held()
    emulator.release()
    deadline = time.monotonic() + 10
    while emulator.requests[0].status != 200:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_every_control_route_is_documented() -> None:
    addresses = re.findall(
        r"^curl -s http://127.0.0.1:8765(/_emulator/\S+)", PAGES["docs/emulator.md"], re.MULTILINE
    )
    assert set(addresses) == {control.path.replace("{inbox}", "orders") for control in OPERATIONS}


@pytest.mark.parametrize("path", ["/", "/_emulator"])
def test_it_says_what_it_is_and_what_each_control_route_does(api: Api, path: str) -> None:
    response = api("GET", path)
    assert (response.status_code, response.headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
    assert response.text.startswith("The emulator of the workflow service.")
    lines = response.text.splitlines()
    for route in OPERATIONS:
        assert [line for line in lines if line.startswith(f"{route.method} {route.path}: ")], route.path
    assert "POST /_emulator/messages: Put messages into an inbox." in lines


@pytest.mark.specification("11.3 401, 403, 409, 429, 503, 504")
@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_answer_has_the_headers_of_the_specification(
    emulator: EmulatorServer, api: Api, lease_path: str, status: int
) -> None:
    limited = {"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"}
    emulator.fault("status", operation="lease", status=status)
    busy = api("POST", lease_path)
    assert busy.status_code == status
    assert {name: busy.headers[name] for name in limited} == {
        **{name: api("GET", "/inboxes").headers[name] for name in limited},
        "X-RateLimit-Remaining": "10000000",
    }
    assert busy.headers["Retry-After"] == "0"

    emulator.fault("status", operation="lease", status=status, headers={"retry-after": "7"})
    assert api("POST", lease_path).headers["Retry-After"] == "7"
    emulator.fault("status", operation="lease", status=500)
    assert not {"Retry-After", *limited} & set(api("POST", lease_path).headers)


@pytest.mark.parametrize("status", [204, 304])
def test_a_status_that_has_no_body_leaves_the_connection_usable(
    emulator: EmulatorServer, api: Api, status: int
) -> None:
    emulator.fault("status", status=status, headers={"X-Further": "1"})
    head = f"GET /editor HTTP/1.1\r\nHost: {urlsplit(emulator.base_url).netloc}\r\n\r\n".encode()
    with socket.create_connection((emulator.host, emulator.port), timeout=5) as connection:
        connection.sendall(head)
        first = connection.recv(65536)
        connection.sendall(head)
        second = connection.recv(65536)
    assert first.startswith(b"HTTP/1.1 %d" % status)
    assert first.endswith(b"\r\n\r\n")
    assert b"x-further: 1" in first
    assert second.startswith(b"HTTP/1.1 200")


def test_a_truncated_body_is_shorter_than_promised(
    emulator: EmulatorServer, api: Api, lease_path: str
) -> None:
    emulator.fault("truncate", operation="lease")
    with pytest.raises((requests.exceptions.ChunkedEncodingError, requests.ConnectionError)):
        api("POST", lease_path)
    assert emulator.summary("orders")["counters"]["leases"] == 1


def test_duplicates_come_in_two_leases_that_both_hold(
    emulator: EmulatorServer, api: Api, lease_path: str
) -> None:
    emulator.fault("duplicate", operation="lease")
    leases = [api("POST", lease_path).json() for _ in range(2)]
    first, second = ([result["id"] for result in lease["results"]] for lease in leases)
    assert first == second
    for lease in leases:
        ack = api("POST", lease_path.replace("/lease", "/ack"), {"lease_id": lease["lease_id"]})
        assert ack.status_code == 201


def test_faults_are_chosen_by_path_and_counted(emulator: EmulatorServer, api: Api, lease_path: str) -> None:
    api.control("/faults", kind="status", path="/lease$", status=502, times=2, after=1)
    statuses = [api("POST", lease_path).status_code for _ in range(4)]
    assert statuses == [201, 502, 502, 200]
    assert emulator.emulator.faults.rules[0].met == 4
    api.control("/faults/clear")
    assert emulator.emulator.faults.rules == []
