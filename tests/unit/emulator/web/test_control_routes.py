"""Control routes over a real socket."""

from __future__ import annotations

import time

import pytest

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.emulator.conftest import Api


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
