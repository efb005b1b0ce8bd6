"""The control routes of the emulator: state, faults and held requests."""

from __future__ import annotations

import json
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import requests

from airflow_provider_workflow.emulator.clock import Clock, ManualClock
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.emulator.web.control_routes import OPERATIONS
from tests.unit.emulator.conftest import Api
from tests.unit.emulator.web.helpers import ask, leases, raw, read_all


def summary(api: Api, inbox: str) -> dict[str, object]:
    return dict(api("GET", f"/_emulator/inboxes/{inbox}").json())


def test_messages_are_put_by_name_or_id_and_an_inbox_is_made_on_demand(api: Api) -> None:
    put = api.control("/messages", inbox="orders", create=True, payloads=[{"n": 1}, {"n": 2}])
    assert (len(put["ids"]), put["dropped"], put["note"]) == (2, 0, None)
    inbox_id = api("GET", "/inboxes", params={"name": "orders"}).json()["results"][0]["id"]
    api.control("/messages", inbox=inbox_id, payloads=[{}], ids=["x"], attributes={"error_message": "e"})
    told = summary(api, "orders")
    assert told["counts"] == {"available": 3, "leased": 0, "acked": 0, "quarantined": 0}
    assert told["messages"][-1]["error_message"] == "e"  # type: ignore[index]


def test_messages_are_put_with_a_number_for_an_id_and_without_one(api: Api) -> None:
    ids = [17, "order 7", None]
    assert api.control("/messages", inbox="orders", create=True, payloads=[1, 2, 3], ids=ids)["ids"] == ids
    inbox_id = api("GET", "/inboxes").json()["results"][0]["id"]
    leased = api("POST", f"/inboxes/{inbox_id}/messages/lease").json()["results"]
    assert [message.get("id", "none") for message in leased] == [17, "order 7", "none"]


def test_a_paused_inbox_drops_what_is_put_and_the_answer_says_so(api: Api) -> None:
    api.control("/messages", inbox="orders", create=True, payloads=[])
    api.control("/inboxes/state", inbox="orders", status="paused", paused_reason="authentication")
    put = api.control("/messages", inbox="orders", payloads=[{}, {}])
    assert (put["ids"], put["dropped"]) == ([], 2)
    assert "paused" in put["note"]


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


def test_limits_and_settings_are_turned(api: Api) -> None:
    api.control("/settings", rate_limit=1, rate_window_seconds=10)
    api("GET", "/inboxes")
    assert api("GET", "/inboxes").headers["Retry-After"] == "10"
    api.control("/settings", rate_limit=None)
    assert api("GET", "/inboxes").status_code == 200
    assert api.control("/settings", quarantine_after=2)["quarantine_after"] == 2
    assert api.control("/settings")["quarantine_after"] == 2


def test_requests_are_logged_with_their_headers_but_control_is_not(
    emulator: EmulatorServer, api: Api
) -> None:
    api("GET", "/inboxes", params={"limit": 5})
    api("POST", "/v2/guess?client_id=demo-client", {"description": "é"})
    api("GET", "/nowhere")
    told = api("GET", "/_emulator/requests").json()
    assert told["counts"] == {"list_inboxes": 1, "guess": 1, "unknown": 1}
    first, second, third = told["requests"]
    assert (first["method"], first["query"], first["status"]) == ("GET", "limit=5", 200)
    assert first["headers"]["authorization"].startswith("Bearer ")
    assert (second["status"], third["status"]) == (400, 404)
    assert [each["operation"] for each in told["requests"]] == [each.operation for each in emulator.requests]
    assert api("GET", "/_emulator/requests?limit=1").json()["requests"] == [third]
    assert emulator.count("guess") == 1


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/messages", {"inbox": "nobody", "payloads": []}),
        ("/messages", {"inbox": "orders"}),
        ("/messages", {"inbox": "orders", "payloads": [1, 2], "ids": "ab"}),
        ("/inboxes/state", {"inbox": "orders", "status": "asleep"}),
        ("/clock/advance", {}),
        ("/settings", {"color": "blue"}),
        ("/faults", {"kind": "explode"}),
    ],
)
def test_control_says_what_it_does_not_understand(
    emulator: EmulatorServer, api: Api, path: str, body: dict[str, object]
) -> None:
    emulator.open_inbox("orders")
    response = api("POST", f"/_emulator{path}", body)
    assert response.status_code in (400, 404)
    assert response.json()["errors"][0]["detail"]


def test_a_reset_begins_anew(emulator: EmulatorServer, api: Api) -> None:
    emulator.put("orders", {})
    emulator.fault("drop", times=None)
    api.control("/clock/advance", seconds=1000)
    api.control("/settings", page_size=1)
    before = time.monotonic()
    api.control("/reset")
    assert time.monotonic() - before < 1
    assert emulator.store.inboxes.page(9, 0) == (0, [])
    assert (emulator.store.settings.page_size, emulator.store.clock.offset) == (100, 0)
    assert emulator.emulator.faults.rules == []
    assert api("GET", "/inboxes").status_code == 400  # its token is gone, too


ORDERS = {"inbox": "orders"}
DOCUMENT = Path(__file__).parents[4] / "docs" / "emulator.md"
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
        ("/tokens/expire", {"token": 1}, "token"),
        ("/clock/advance", {"seconds": "1"}, "seconds"),
        ("/clock/advance", {"seconds": NOT_A_NUMBER}, "seconds"),
        ("/clock/advance", {"seconds": 10**400}, "seconds"),
        ("/clock/advance", {"seconds": 300e9}, "seconds"),
        ("/settings", {"rate_limit": -1}, "rate_limit"),
        ("/settings", {"page_size": True}, "page_size"),
        ("/settings", {"list_order": "latest"}, "list_order"),
        ("/settings", {"token_seconds": NOT_A_NUMBER}, "token_seconds"),
        ("/settings", {"redirect_uris": []}, "redirect_uris"),
        ("/faults", {}, "kind"),
        ("/faults", {"kind": "status", "status": 600}, "status"),
        ("/faults", {"kind": "status", "headers": {"X-Name": "a\r\nSet-Cookie: b"}}, "headers.X-Name"),
        ("/faults", {"kind": "status", "content_type": "text/\u20ac"}, "content_type"),
        ("/faults", {"kind": "drop", "times": 0}, "times"),
        ("/faults", {"kind": "drop", "path": "("}, "path"),
        ("/faults", {"kind": "drop", "operation": "leases"}, "operation"),
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
    shown = re.findall(r"^curl -s http://127.0.0.1:8765(/_emulator/\S+)", DOCUMENT.read_text(), re.MULTILINE)
    assert set(shown) == {control.path.replace("{inbox}", "orders") for control in OPERATIONS}


def test_a_status_comes_with_the_envelope_and_without_effect(
    emulator: EmulatorServer, api: Api, lease_path: str
) -> None:
    emulator.fault("status", operation="lease", status=503, headers={"Retry-After": "7"}, code="down")
    response = api("POST", lease_path)
    assert (response.status_code, response.headers["Retry-After"]) == (503, "7")
    assert response.json()["errors"][0]["code"] == "down"
    assert leases(emulator) == 0
    assert [each.status for each in emulator.requests] == [503]
    assert api("POST", lease_path).status_code == 201


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


def test_a_status_can_come_after_the_effect(emulator: EmulatorServer, api: Api, lease_path: str) -> None:
    emulator.fault("status", operation="lease", status=500, when="after")
    response = api("POST", lease_path)
    error = response.json()["errors"][0]
    assert (response.status_code, error["code"]) == (500, "error")
    assert set(error["meta"]) == {"source", "full_details"}
    assert leases(emulator) == 1


@pytest.mark.parametrize(
    ("given", "content_type", "body"),
    [
        ({"json": {"detail": "only"}}, "application/json", b'{"detail":"only"}'),
        ({"text": "<h1>Bad gateway</h1>"}, "text/html", b"<h1>Bad gateway</h1>"),
        ({"text": ""}, "text/html", b""),
        ({"text": "slow down", "content_type": "text/plain"}, "text/plain", b"slow down"),
    ],
)
def test_the_body_of_a_status_is_any_other(
    emulator: EmulatorServer, api: Api, given: dict[str, Any], content_type: str, body: bytes
) -> None:
    date = "Wed, 21 Oct 2026 07:28:00 GMT"
    emulator.fault("status", status=429, headers={"Retry-After": date}, **given)
    response = api("GET", "/inboxes")
    assert (response.status_code, response.content) == (429, body)
    assert (response.headers["Content-Type"], response.headers["Retry-After"]) == (content_type, date)


@pytest.mark.parametrize("status", [204, 304])
def test_a_status_that_has_no_body_leaves_the_connection_usable(
    emulator: EmulatorServer, api: Api, status: int
) -> None:
    emulator.fault("status", status=status, headers={"X-Further": "1"})
    with raw(emulator, api) as connection:
        first = connection.recv(65536)
        ask(connection, api)
        second = connection.recv(65536)
    assert first.startswith(b"HTTP/1.1 %d" % status)
    assert first.endswith(b"\r\n\r\n")
    assert b"x-further: 1" in first
    assert second.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("status", [401, 503])
def test_guess_gives_every_error_on_demand(emulator: EmulatorServer, api: Api, status: int) -> None:
    api.control("/faults", kind="status", operation="guess", status=status)
    response = api("POST", "/v2/guess?client_id=demo-client", {"description": "send an email"})
    assert (response.status_code, response.json()["errors"][0]["status"]) == (status, status)


@pytest.mark.parametrize(("when", "had_effect"), [("before", 0), ("after", 1)])
def test_a_connection_is_dropped_before_or_after_the_effect(
    emulator: EmulatorServer, api: Api, lease_path: str, when: str, had_effect: int
) -> None:
    emulator.fault("drop", operation="lease", when=when)
    with pytest.raises(requests.ConnectionError):
        api("POST", lease_path)
    assert leases(emulator) == had_effect
    assert [each.status for each in emulator.requests] == [None]
    assert api("GET", "/inboxes").status_code == 200


def test_a_dropped_connection_ends_without_a_byte(emulator: EmulatorServer, api: Api) -> None:
    emulator.fault("drop")
    assert read_all(raw(emulator, api)) == b""


def test_a_slow_answer_comes_late(emulator: EmulatorServer, api: Api, lease_path: str) -> None:
    emulator.fault("slow", operation="lease", seconds=0.2, times=2)
    with pytest.raises(requests.Timeout):
        api("POST", lease_path, timeout=0.05)
    before = time.monotonic()
    assert api("POST", lease_path).ok
    assert time.monotonic() - before >= 0.2


def test_a_truncated_body_is_shorter_than_promised(
    emulator: EmulatorServer, api: Api, lease_path: str
) -> None:
    emulator.fault("truncate", operation="lease")
    with pytest.raises((requests.exceptions.ChunkedEncodingError, requests.ConnectionError)):
        api("POST", lease_path)
    assert leases(emulator) == 1
    emulator.fault("truncate", operation="list_inboxes")
    head, _, body = read_all(raw(emulator, api)).partition(b"\r\n\r\n")
    promised = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    assert 0 < len(body) < promised


def test_duplicates_come_in_two_leases_that_both_hold(
    emulator: EmulatorServer, api: Api, lease_path: str
) -> None:
    emulator.fault("duplicate", operation="lease")
    both = [api("POST", lease_path).json() for _ in range(2)]
    first, second = ([each["id"] for each in lease["results"]] for lease in both)
    assert first == second
    for lease in both:
        ack = api("POST", lease_path.replace("/lease", "/ack"), {"lease_id": lease["lease_id"]})
        assert ack.status_code == 201


def test_faults_are_chosen_by_path_and_counted(emulator: EmulatorServer, api: Api, lease_path: str) -> None:
    api.control("/faults", kind="status", path="/lease$", status=502, times=2, after=1)
    statuses = [api("POST", lease_path).status_code for _ in range(4)]
    assert statuses == [201, 502, 502, 200]
    assert emulator.emulator.faults.rules[0].met == 4
    api.control("/faults/clear")
    assert emulator.emulator.faults.rules == []


@pytest.mark.parametrize(("when", "effect_while_held"), [("before", 0), ("after", 1)])
def test_a_request_is_held_until_it_is_released(
    emulator: EmulatorServer, api: Api, lease_path: str, when: str, effect_while_held: int
) -> None:
    emulator.fault("hold", operation="lease", when=when)
    answers: list[requests.Response] = []
    thread = threading.Thread(target=lambda: answers.append(api("POST", lease_path)))
    thread.start()
    (held,) = emulator.wait_until_held()
    assert (held["operation"], held["when"]) == ("lease", when)
    assert leases(emulator) == effect_while_held
    assert emulator.emulator.holds.listing() == [held]
    assert emulator.release(held["id"]) == 1
    thread.join(5)
    assert answers[0].status_code == 201
    assert leases(emulator) == 1


def test_a_held_request_can_be_dropped_instead(emulator: EmulatorServer, api: Api, lease_path: str) -> None:
    emulator.fault("hold", operation="lease")
    failures: list[Exception] = []

    def ask() -> None:
        try:
            api("POST", lease_path)
        except requests.ConnectionError as error:
            failures.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    emulator.wait_until_held()
    emulator.release(drop=True)
    thread.join(5)
    assert len(failures) == 1
    assert leases(emulator) == 0


def test_a_client_that_is_killed_while_held_has_had_its_effect_once_released(
    emulator: EmulatorServer, api: Api
) -> None:
    emulator.fault("hold", operation="list_inboxes")
    raw(emulator, api).close()
    emulator.wait_until_held()
    emulator.release()
    for _ in range(100):
        if emulator.requests[0].status == 200:
            break
        time.sleep(0.01)
    assert emulator.requests[0].status == 200
